// Reads JSON from other programs: limited size, depth and number of values, no duplicate keys, no NaN, only UTF-8.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/error.hpp"

namespace assay {

// The text says where: "run.json: at cells/2/forks: duplicate key \"seed\"".
class JsonError : public Error {
 public:
  using Error::Error;
};

struct JsonLimits {
  std::size_t bytes = std::size_t{1} << 30;
  std::size_t depth = 32;
  std::size_t values = 20'000'000;  // a value of two characters takes 16 bytes of memory, an empty list 72
};

// The text of a file, which may be compressed by gzip, whatever its name. Throws JsonError naming the file if it is
// missing, unreadable, not a file, too large or damaged.
std::string read_json_text(const std::filesystem::path& file, JsonLimits limits = {});

// `where` names the text in errors: a path, or "standard input". Throws JsonError.
nlohmann::json parse_strict_json(std::string_view text, std::string_view where, JsonLimits limits = {});
// Throws JsonError naming the file if it cannot be read or is not strict JSON.
nlohmann::json read_strict_json(const std::filesystem::path& file, JsonLimits limits = {});

// Each small value or list of numbers is on one line, and larger ones are indented, so that the text is easy
// to read and to diff. A number that is not finite becomes null, with "not_finite": {"<key>": "nan"} next to
// it in the same object. Invalid UTF-8 is replaced.
std::string strict_json_text(nlohmann::json json);

}  // namespace assay

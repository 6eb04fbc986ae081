// Reads JSON that others wrote: bounded in size and depth, no duplicate keys, no NaN, UTF-8 only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/error.hpp"

namespace assay {

// The text says where: "run.json: at cells/2/forks: the key \"seed\" stands twice".
class JsonError : public Error {
 public:
  using Error::Error;
};

struct JsonLimits {
  std::size_t bytes = std::size_t{1} << 30;
  std::size_t depth = 32;
};

// The bytes of a file. Throws JsonError naming it when it is missing, unreadable, not a file or too large.
std::string read_json_text(const std::filesystem::path& file, JsonLimits limits = {});

// `where` names the text in errors: a path, or "standard input". Throws JsonError.
nlohmann::json parse_strict_json(std::string_view text, std::string_view where, JsonLimits limits = {});
// Throws JsonError naming the file when it cannot be read or is not strict JSON.
nlohmann::json read_strict_json(const std::filesystem::path& file, JsonLimits limits = {});

// One line for each small value or list of numbers, indented above that: diffs and eyes can follow it. What
// is not finite becomes null, with "not_finite": {"<key>": "nan"} beside it in the same object; text that is
// not UTF-8 is mended.
std::string strict_json_text(nlohmann::json json);

}  // namespace assay

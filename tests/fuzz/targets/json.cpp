// Strict JSON.
#include <string>

#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/json/strict_json.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_json {
namespace {

constexpr JsonLimits limits{.bytes = 1 << 16, .depth = 16};

const Registration here("json", [](Input input) {
  const nlohmann::json json = parse_strict_json(text_of(input), "fuzz", limits);
  const std::string written = strict_json_text(json);
  require(parse_strict_json(written, "again") == json, "what is written again is the same");
  for (const char c : written)
    require(static_cast<unsigned char>(c) >= ' ' || c == '\n', "no control characters are written");
});

}  // namespace
}  // namespace assay::fuzz::of_json

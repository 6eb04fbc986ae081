// backend.json of a folder that somebody added.
#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backends.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/op.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_backend {
namespace {

const Registration here("backend", [](Input input) {
  const nlohmann::json json = parse_strict_json(text_of(input), "fuzz", {1 << 20, 16});
  const BackendDescription backend = backend_from_json(json, "/nowhere/added/backend.json", {});
  require(!backend.name.empty() && backend.name.find_first_of(" /,\n\"'$`;") == std::string::npos,
          "a name is a word of the command line");
  require(!backend.command.empty() && !backend.modes.empty() && !backend.layouts.empty(),
          "a backend can be started");
  require(backend.recommended.empty() || contains(backend.modes, backend.recommended),
          "the recommended mode is one of its modes");
  require(backend.available() || !backend.unavailable.empty(), "what is not available has a reason");
  for (const std::string& part : backend.command)
    require(part.find("${here}") == std::string::npos, "placeholders are replaced");
  support(backend, find_op("relu"));
});

}  // namespace
}  // namespace assay::fuzz::of_backend

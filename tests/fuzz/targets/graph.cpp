// graph.json of a cell folder.
#include <nlohmann/json.hpp>

#include "harness/core/json/strict_json.hpp"
#include "harness/graph/program.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_graph {
namespace {

const Registration here("graph", [](Input input) {
  const Program program = program_from_json(parse_strict_json(text_of(input), "fuzz"));
  const nlohmann::json written = to_json(program);
  require(to_json(program_from_json(written)) == written, "what is written again is the same");
  const auto has_elements = [](const Graph& graph) {
    for (const Value& value : graph.values())
      require(value.type.elements() >= 1 && value.type.bytes() > 0, "a value has elements");
  };
  has_elements(program.inference);
  if (program.training) has_elements(*program.training);
});

}  // namespace
}  // namespace assay::fuzz::of_graph

// network.json of an imported network.
#include <nlohmann/json.hpp>

#include "harness/core/json/strict_json.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "workloads/imported_network.hpp"

namespace assay::fuzz::of_network {
namespace {

const Registration here("network", [](Input input) {
  const NetworkFile file =
      network_file_of(parse_strict_json(text_of(input), "fuzz", {std::size_t{1} << 20, 6}), "fuzz");
  const Workload workload = imported_workload(file, "models/fuzz");
  require(workload.classes >= 2 && workload.parameters >= 0, "it has logits");
  Program program = workload.build(workload.form(2, Task::infer));
  require(to_json(program_from_json(to_json(program))) == to_json(program), "its graph is written and read");
  program = workload.build(2);
  require(to_json(program_from_json(to_json(program))) == to_json(program),
          "its graphs are written and read");
});

}  // namespace
}  // namespace assay::fuzz::of_network

#include "harness/conductor/check/touched_rows.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/graph/op.hpp"

namespace assay {

std::vector<bool> touched_rows(const std::filesystem::path& cell_folder, const Program& program,
                               ValueId parameter) {
  if (program.optimizer.kind != "lazy_adam") return {};
  const Graph& graph = program.training;
  for (const Node& node : graph.nodes()) {
    if (node.op->name() != "embedding" || node.inputs[1] != parameter) continue;
    if (!node.attributes.get_or("sparse_gradient", false)) return {};
    const std::filesystem::path path = cell_folder / "check" / "inputs.npy";
    const HostTensor tokens = read_npy(path);
    if (node.inputs[0] != graph.find("inputs") || tokens.type.dtype != DType::i32)
      throw CellError(fmt::format("[check] {}: the tokens that '{}' looks up are not the inputs {}",
                                  path.string(), node.name, to_string(tokens.type)));
    std::vector<bool> touched(static_cast<std::size_t>(graph.value(parameter).type.shape.front()));
    for (const std::int32_t token : tokens.as<std::int32_t>()) {
      if (token >= 0 && static_cast<std::size_t>(token) < touched.size())
        touched[static_cast<std::size_t>(token)] = true;
    }
    return touched;
  }
  return {};
}

}  // namespace assay

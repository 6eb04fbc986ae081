#include "harness/graph/passes/slices.hpp"

#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

class Slicing {
 public:
  Slicing(const Graph& from, std::int64_t slices) : from_(from), slices_(slices), copy_(from) {
    walk(from_, [&](ValueId id) { copy_.add_value(id); }, [&](NodeId id) { add(from_.node(id)); });
    copy_.add_outputs();
    copy_.add_updates();
  }

  Graph take() { return copy_.take(); }

 private:
  void add(const Node& node) {
    if (node.op != &batch_norm_op() || !node.attributes.get<bool>("training")) return copy_.add_node(node);
    const std::int64_t rows = from_.value(node.inputs[0]).type.shape.at(0);
    if (rows % slices_ != 0)
      throw GraphError(fmt::format("[batch_norm] node '{}' has {} rows, which are not {} equal slices",
                                   node.name, rows, slices_));
    std::vector<ValueId> parts;
    for (std::int64_t slice = 0; slice < slices_; ++slice)
      parts.push_back(normalised(node, slice, rows / slices_));
    const Graph& graph = copy_.graph();
    const NodeId joined = copy_.graph().add_node(concat_op(), node.name, parts, {{"axis", std::int64_t{0}}});
    copy_.set(node.outputs[0], graph.node(joined).outputs[0]);
  }

  // The first slice gives the running statistics.
  ValueId normalised(const Node& node, std::int64_t slice, std::int64_t rows) {
    Graph& graph = copy_.graph();
    const std::string name = fmt::format("{}.slice{}", node.name, slice);
    const std::array x{copy_.at(node.inputs[0])};
    const NodeId part =
        graph.add_node(slice_op(), name + ".x", x,
                       {{"axis", std::int64_t{0}}, {"begin", slice * rows}, {"end", (slice + 1) * rows}});
    std::vector<ValueId> inputs{graph.node(part).outputs[0]};
    for (std::size_t i = 1; i < node.inputs.size(); ++i) inputs.push_back(copy_.at(node.inputs[i]));
    std::vector<bool> wanted;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      wanted.push_back(node.outputs[i] != none && (slice == 0 || i < first_running_));
    const NodeId id = graph.add_node(*node.op, name, inputs, node.attributes, wanted);
    for (std::size_t i = first_running_; slice == 0 && i < node.outputs.size(); ++i)
      if (node.outputs[i] != none) copy_.set(node.outputs[i], graph.node(id).outputs[i]);
    return graph.node(id).outputs[0];
  }

  static constexpr std::size_t first_running_ =
      3;  // results: y, mean, inverse_std, and the running statistics

  const Graph& from_;
  std::int64_t slices_;
  GraphCopy copy_;
};

}  // namespace

Program with_slices(const Program& program, std::int64_t slices) {
  Program sliced = program;
  if (slices > 1) sliced.training = Slicing(program.graph(Task::train), slices).take();
  return sliced;
}

}  // namespace assay

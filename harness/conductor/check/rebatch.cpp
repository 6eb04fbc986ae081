#include "harness/conductor/check/rebatch.hpp"

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

// The copies of values, by their ids in the original.
class Copied {
 public:
  explicit Copied(std::size_t values) : ids_(values, none) {}
  ValueId operator()(ValueId id) const { return id == none ? none : ids_.at(static_cast<std::size_t>(id)); }
  void set(ValueId id, ValueId copy) { ids_.at(static_cast<std::size_t>(id)) = copy; }

 private:
  std::vector<ValueId> ids_;
};

Graph with_batch(const Graph& graph, std::int64_t batch) {
  Graph copy(graph.name());
  Copied copied(graph.values().size());
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.producer != none) continue;
    TensorType type = value.type;
    const bool rows = value.role == Role::input || value.role == Role::label || value.role == Role::mask;
    if (rows && !type.shape.empty()) type.shape.front() = batch;
    copied.set(static_cast<ValueId>(i), copy.add_value(value.name, type, value.role, value.initializer));
  }
  for (const Node& node : graph.nodes()) {
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(copied(id));
    std::vector<bool> wanted;
    for (const ValueId id : node.outputs) wanted.push_back(id != none);
    const NodeId added = copy.add_node(*node.op, node.name, inputs, node.attributes, wanted);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != none) copied.set(node.outputs[i], copy.node(added).outputs[i]);
    }
  }
  for (const Graph::Output& output : graph.outputs()) copy.add_output(output.name, copied(output.value));
  for (const Update& update : graph.updates()) copy.add_update(copied(update.target), copied(update.source));
  return copy;
}

}  // namespace

std::int64_t batch_of(const Program& program) {
  if (program.is_op()) return 1;
  const ValueId inputs = program.training.find("inputs");
  if (inputs == none || program.training.value(inputs).type.shape.empty()) {
    throw GraphError(
        fmt::format("graph '{}' has no feed 'inputs' with a batch dimension", program.training.name()));
  }
  return program.training.value(inputs).type.shape.front();
}

Program with_batch(const Program& program, std::int64_t batch) {
  if (program.is_op()) return program;
  return {with_batch(program.training, batch), with_batch(program.inference, batch), program.optimizer};
}

}  // namespace assay

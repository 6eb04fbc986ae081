#include "harness/conductor/check/rebatch.hpp"

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

Graph with_batch(const Graph& graph, std::int64_t batch) {
  GraphCopy copy(graph);
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.producer != none) continue;
    TensorType type = value.type;
    const bool rows = value.role == Role::input || value.role == Role::label || value.role == Role::mask;
    if (rows && !type.shape.empty()) type.shape.front() = batch;
    copy.add_value(static_cast<ValueId>(i), std::move(type));
  }
  for (const Node& node : graph.nodes()) copy.add_node(node);
  copy.add_outputs();
  copy.add_updates();
  return copy.take();
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

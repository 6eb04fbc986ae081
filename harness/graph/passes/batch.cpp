#include "harness/graph/passes/batch.hpp"

#include <vector>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {

Graph with_batch(const Graph& graph, std::int64_t batch) {
  GraphCopy copy(graph);
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.producer != none) continue;
    TensorType type = value.type;
    const bool rows = value.role == Role::input || value.role == Role::label || value.role == Role::mask ||
                      value.role == Role::cache;
    if (rows && !type.shape.empty()) type.shape.front() = batch;
    copy.add_value(static_cast<ValueId>(i), std::move(type));
  }
  for (const Node& node : graph.nodes()) copy.add_node(node);
  copy.add_outputs();
  copy.add_updates();
  return copy.take();
}

std::int64_t batch_of(const Program& program) {
  if (program.is_op()) return 1;
  const std::vector<ValueId> inputs = program.inference.with_role(Role::input);
  if (inputs.empty() || program.inference.value(inputs.front()).type.shape.empty())
    throw GraphError(fmt::format("graph '{}' has no input with a batch dimension", program.name()));
  return program.inference.value(inputs.front()).type.shape.front();
}

Program with_batch(const Program& program, std::int64_t batch) {
  if (batch == batch_of(program)) return program;
  Program other{.training = {},
                .inference = with_batch(program.inference, batch),
                .optimizer = program.optimizer,
                .kind = program.kind};
  if (program.training) other.training = with_batch(*program.training, batch);
  if (program.decoding) {
    other.decoding = {program.decoding->prompt, with_batch(program.decoding->prefill, batch),
                      with_batch(program.decoding->step, batch)};
  }
  return other;
}

}  // namespace assay

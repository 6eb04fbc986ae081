#include "harness/conductor/check/expected_tensors.hpp"

namespace assay {
namespace {

Shape stacked(std::int64_t count, Shape shape) {
  shape.insert(shape.begin(), count);
  return shape;
}

std::vector<ExpectedTensor> expected_of_op(const Program& program, Task task, const ExamBatches& batches) {
  const Graph& graph = program.graph(task);
  std::vector<ExpectedTensor> tensors;
  for (const Graph::Output& output : graph.outputs())
    tensors.push_back({.name = "result/" + output.name,
                       .shape = stacked(batches.count(), graph.value(output.value).type.shape),
                       .summed = true});
  if (task == Task::train) {
    for (const ValueId id : differentiated_inputs(program))
      tensors.push_back({.name = "gradient/" + graph.value(id).name,
                         .shape = stacked(batches.count(), graph.value(id).type.shape),
                         .summed = true});
  }
  for (const ValueId id : graph.with_role(Role::state))
    tensors.push_back(
        {.name = "running/" + graph.value(id).name, .shape = graph.value(id).type.shape, .summed = true});
  for (const ValueId id : graph.with_role(Role::mask))
    tensors.push_back({.name = "draws/" + graph.value(id).name,
                       .shape = stacked(2, graph.value(id).type.shape),
                       .draws = true});
  return tensors;
}

// Parameters, moments and running statistics after one of the two runs.
void add_state(std::vector<ExpectedTensor>& tensors, const Program& program, const std::string& run) {
  const Graph& graph = program.inference;
  for (const ValueId id : graph.with_role(Role::parameter)) {
    const Value& parameter = graph.value(id);
    tensors.push_back({.name = run + "/parameter/" + parameter.name,
                       .shape = parameter.type.shape,
                       .parameter = parameter.name,
                       .summed = true});
    for (const std::string& moment : program.moments())
      tensors.push_back({.name = run + "/moment/" + parameter.name + "." + moment,
                         .shape = parameter.type.shape,
                         .parameter = parameter.name,
                         .summed = true,
                         .square = OptimizerSpec::is_square(moment)});
  }
  for (const ValueId id : graph.with_role(Role::state))
    tensors.push_back({.name = run + "/running/" + graph.value(id).name,
                       .shape = graph.value(id).type.shape,
                       .summed = true,
                       .of_first_rank = true});
}

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const Program& program, Task task, const ExamBatches& batches,
                                             bool extreme) {
  if (program.is_op()) return expected_of_op(program, task, batches);
  const Graph& graph = program.inference;
  if (task == Task::infer) {
    std::vector<ExpectedTensor> outputs;
    for (const Graph::Output& output : graph.outputs())
      outputs.push_back({.name = output.name,
                         .shape = stacked(batches.count(), graph.value(output.value).type.shape),
                         .rows = true});
    return outputs;
  }
  const Shape logits = graph.value(graph.output("logits")).type.shape;
  if (task == Task::decode) {
    // Those of the prompt's last token, and of each token after it.
    const Shape decoded{logits.front(), 1 + program.generated(), logits.back()};
    return {{.name = "logits", .shape = stacked(batches.count(), decoded), .rows = true}};
  }

  std::vector<ExpectedTensor> tensors = {{.name = "evaluation/logits", .shape = logits, .rows = true},
                                         {.name = "first/loss", .shape = {}, .mean = true, .summed = true}};
  add_state(tensors, program, "first");
  tensors.push_back({.name = "last/loss", .shape = {}, .mean = true, .summed = true});
  tensors.push_back({.name = "last/logits",
                     .shape = logits,
                     .rows = true,
                     .of_first_rank = !graph.with_role(Role::state).empty()});
  add_state(tensors, program, "last");
  if (extreme) tensors.push_back({.name = "extreme/loss", .shape = {}, .mean = true, .summed = true});
  const Graph& training = program.graph(task);
  for (const ValueId id : training.with_role(Role::mask))
    tensors.push_back({.name = "draws/" + training.value(id).name,
                       .shape = stacked(2, training.value(id).type.shape),
                       .draws = true});
  return tensors;
}

std::vector<StateTensor> state_tensors(const Program& program) {
  const Graph& graph = program.inference;
  std::vector<StateTensor> tensors;
  for (const ValueId id : graph.with_role(Role::parameter)) {
    const Value& parameter = graph.value(id);
    tensors.push_back({parameter.name, parameter.type.shape, parameter.name});
    for (const std::string& moment : program.moments())
      tensors.push_back({parameter.name + "." + moment, parameter.type.shape, parameter.name});
  }
  for (const ValueId id : graph.with_role(Role::state))
    tensors.push_back({graph.value(id).name, graph.value(id).type.shape});
  return tensors;
}

std::int64_t state_bytes(const Program& program) {
  std::int64_t bytes = 0;
  for (const StateTensor& tensor : state_tensors(program))
    bytes += TensorType{DType::f32, tensor.shape}.bytes();
  return bytes;
}

}  // namespace assay

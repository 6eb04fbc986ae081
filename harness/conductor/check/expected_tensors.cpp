#include "harness/conductor/check/expected_tensors.hpp"

#include <fmt/format.h>

namespace assay {

namespace {

std::vector<ExpectedTensor> expected_of_op(const Program& program, Task task, std::string_view phase) {
  const Graph& graph = program.graph(task);
  std::vector<ExpectedTensor> tensors;
  for (const Graph::Output& output : graph.outputs())
    tensors.push_back({"result/" + output.name, graph.value(output.value).type.shape});
  if (task == Task::train) {
    for (const ValueId id : differentiated_inputs(program))
      tensors.push_back({"gradient/" + graph.value(id).name, graph.value(id).type.shape});
  }
  for (const ValueId id : graph.with_role(Role::mask)) {
    if (phase == "verify") tensors.push_back({"draws/" + graph.value(id).name, {4}, false, false, true});
  }
  for (const ValueId id : graph.with_role(Role::state))
    tensors.push_back({"running/" + graph.value(id).name, graph.value(id).type.shape});
  return tensors;
}

std::vector<ExpectedTensor> expected_of_network(const Program& program, Task task, std::string_view phase,
                                                std::int64_t steps) {
  const bool check = phase == "check";
  const Graph& graph = program.training;
  const Shape logits = graph.value(graph.output("logits")).type.shape;
  if (task == Task::infer) return {{check ? "evaluation/logits" : "logits", logits, true}};

  std::vector<ExpectedTensor> tensors;
  if (check) {
    tensors = {{"evaluation/logits", logits, true}, {"training/logits", logits, true}, {"training/loss", {}}};
  } else {
    tensors = {{"losses", {steps}}};
  }
  for (const ValueId id : graph.with_role(Role::parameter)) {
    const Value& parameter = graph.value(id);
    if (check) tensors.push_back({"gradient/" + parameter.name, parameter.type.shape});
    tensors.push_back(
        {(check ? "updated/" : "parameter/") + parameter.name, parameter.type.shape, false, check});
    for (const std::string& moment : program.optimizer.moments()) {
      const std::string name = (check ? "updated/" : "moment/") + parameter.name + "." + moment;
      tensors.push_back({name, parameter.type.shape, false, check});
      tensors.back().square = OptimizerSpec::is_square(moment);
    }
  }
  for (const ValueId id : graph.with_role(Role::mask)) {
    if (!check) tensors.push_back({"draws/" + graph.value(id).name, {4}, false, false, true});
  }
  for (const ValueId id : graph.with_role(Role::state)) {
    tensors.push_back({"running/" + graph.value(id).name, graph.value(id).type.shape});
  }
  return tensors;
}

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const Program& program, Task task, std::string_view phase,
                                             std::int64_t steps) {
  const bool op = program.is_op();
  std::vector<ExpectedTensor> tensors =
      op ? expected_of_op(program, task, phase) : expected_of_network(program, task, phase, steps);
  // Of a single op the oracle answers once for both phases.
  for (ExpectedTensor& tensor : tensors)
    tensor.answer = fmt::format("{}/{}", op ? "check" : phase, tensor.name);
  return tensors;
}

}  // namespace assay

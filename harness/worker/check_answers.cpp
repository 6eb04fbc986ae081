#include "harness/worker/check_answers.hpp"

#include <utility>

#include "harness/worker/backend.hpp"

namespace assay {
namespace {

std::int64_t classes_of(const Program& program) {
  return program.training.value(program.training.output("logits")).type.shape.back();
}

HostTensor evaluated(Executable& executable, const Program& program, const CheckFeeds& feeds,
                     std::string name) {
  const Shape shape{feeds.labels.type.shape.front(), classes_of(program)};
  HostTensor logits = HostTensor::zeros(std::move(name), {DType::f32, shape});
  executable.evaluate(feeds.batch(), logits.as<float>().data());
  return logits;
}

enum class Kept { parameter, running, moment };

Kept kind_of(const Program& program, const std::string& name) {
  const ValueId id = program.training.find(name);
  if (id == none) return Kept::moment;
  return program.training.value(id).role == Role::parameter ? Kept::parameter : Kept::running;
}

void train_one(Executable& executable, const CheckFeeds& feeds, std::int64_t step) {
  executable.step(0, feeds.learning_rate(step), feeds.step_count(step));
}

// A single op gives the same before timing and after: what one step on the check's operands computes.
std::vector<HostTensor> op_answers(Executable& executable, const CheckFeeds& feeds) {
  executable.supply_masks(feeds.masks);
  executable.set_state(feeds.parameters);
  executable.stage(0, feeds.batch());
  executable.step(0, 0, 1);
  executable.synchronize();
  std::vector<HostTensor> answers = executable.results();
  for (HostTensor& tensor : answers) {
    if (!tensor.name.starts_with("gradient/")) tensor.name = "result/" + tensor.name;
  }
  for (HostTensor& tensor : executable.state()) {
    tensor.name = "running/" + tensor.name;
    answers.push_back(std::move(tensor));
  }
  return answers;
}

}  // namespace

std::vector<HostTensor> gradient_answers(Executable& executable, const Program& program, Task task,
                                         const CheckFeeds& feeds) {
  if (program.is_op()) return op_answers(executable, feeds);
  std::vector<HostTensor> answers;
  if (task == Task::train) executable.supply_masks(feeds.masks);
  executable.set_state(feeds.parameters);
  answers.push_back(evaluated(executable, program, feeds, "evaluation/logits"));
  if (task == Task::infer) return answers;

  for (HostTensor& tensor : executable.gradients(feeds.batch())) {
    if (tensor.name == "logits" || tensor.name == "loss") tensor.name = "training/" + tensor.name;
    answers.push_back(std::move(tensor));
  }
  for (HostTensor& tensor : executable.state()) {
    if (kind_of(program, tensor.name) != Kept::running) continue;
    tensor.name = "running/" + tensor.name;
    answers.push_back(std::move(tensor));
  }
  return answers;
}

std::vector<HostTensor> check_answers(Executable& executable, const Program& program, Task task,
                                      const CheckFeeds& feeds) {
  std::vector<HostTensor> answers = gradient_answers(executable, program, task, feeds);
  if (program.is_op() || task == Task::infer) return answers;
  executable.set_state(feeds.parameters);
  executable.stage(0, feeds.batch());
  train_one(executable, feeds, 0);
  executable.synchronize();
  for (HostTensor& tensor : executable.state()) {
    if (kind_of(program, tensor.name) == Kept::running) continue;
    tensor.name = "updated/" + tensor.name;
    answers.push_back(std::move(tensor));
  }
  return answers;
}

std::vector<HostTensor> verify_answers(Executable& executable, const Program& program, Task task,
                                       const CheckFeeds& feeds) {
  if (program.is_op()) return op_answers(executable, feeds);
  if (task == Task::train) executable.supply_masks(feeds.masks);
  executable.set_state(feeds.parameters);
  executable.stage(0, feeds.batch());
  std::vector<HostTensor> answers;
  if (task == Task::infer) {
    train_one(executable, feeds,
              0);  // the timed path has run on this batch before it is asked for its logits
    executable.synchronize();
    answers.push_back(evaluated(executable, program, feeds, "logits"));
    return answers;
  }
  HostTensor losses = HostTensor::zeros("losses", {DType::f64, {feeds.steps()}});
  for (std::int64_t step = 0; step < feeds.steps(); ++step) {
    train_one(executable, feeds, step);
    losses.as<double>()[static_cast<std::size_t>(step)] = executable.loss();
  }
  executable.synchronize();
  answers.push_back(std::move(losses));
  for (HostTensor& tensor : executable.state()) {
    const Kept kind = kind_of(program, tensor.name);
    tensor.name = (kind == Kept::parameter ? "parameter/"
                   : kind == Kept::running ? "running/"
                                           : "moment/") +
                  tensor.name;
    answers.push_back(std::move(tensor));
  }
  return answers;
}

}  // namespace assay

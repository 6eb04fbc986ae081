#include "harness/worker/checker.hpp"

#include <utility>

#include "harness/graph/program.hpp"
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

void add_under(std::vector<HostTensor>& all, const std::string& prefix, std::vector<HostTensor> tensors) {
  for (HostTensor& tensor : tensors) {
    tensor.name = prefix + tensor.name;
    all.push_back(std::move(tensor));
  }
}

class NetworkAnswers : public Answers {
 public:
  NetworkAnswers(const Program& program, Task task) : program_(program), trains_(task == Task::train) {}

  std::vector<HostTensor> check(Executable& executable, const CheckFeeds& feeds) const override {
    std::vector<HostTensor> answers = before_the_step(executable, feeds);
    if (!trains_) return answers;
    executable.set_state(feeds.parameters);
    executable.stage(0, feeds.batch());
    train_one(executable, feeds, 0);
    executable.synchronize();
    for (HostTensor& tensor : executable.state()) {
      if (kind_of(program_, tensor.name) == Kept::running) continue;
      tensor.name = "updated/" + tensor.name;
      answers.push_back(std::move(tensor));
    }
    return answers;
  }

  std::vector<HostTensor> verify(Executable& executable, const CheckFeeds& feeds) const override {
    if (trains_) executable.supply_masks(feeds.masks);
    executable.set_state(feeds.parameters);
    executable.stage(0, feeds.batch());
    return trains_ ? after_training(executable, feeds) : after_inference(executable, feeds);
  }

  std::vector<HostTensor> oracle(Executable& executable, const CheckFeeds& feeds) const override {
    std::vector<HostTensor> all;
    add_under(all, "check/", before_the_step(executable, feeds));
    add_under(all, "verify/", verify(executable, feeds));
    return all;
  }

  bool draws_masks() const override { return trains_; }

  // Tokens stay what they are.
  std::vector<std::span<float>> real_inputs(HostTensor& inputs) const override {
    if (!is_floating(inputs.type.dtype)) return {};
    return {inputs.as<float>()};
  }

 private:
  // Logits, loss, gradients, running statistics.
  std::vector<HostTensor> before_the_step(Executable& executable, const CheckFeeds& feeds) const {
    std::vector<HostTensor> answers;
    if (trains_) executable.supply_masks(feeds.masks);
    executable.set_state(feeds.parameters);
    answers.push_back(evaluated(executable, program_, feeds, "evaluation/logits"));
    if (!trains_) return answers;

    for (HostTensor& tensor : executable.gradients(feeds.batch())) {
      if (tensor.name == "logits" || tensor.name == "loss") tensor.name = "training/" + tensor.name;
      answers.push_back(std::move(tensor));
    }
    for (HostTensor& tensor : executable.state()) {
      if (kind_of(program_, tensor.name) != Kept::running) continue;
      tensor.name = "running/" + tensor.name;
      answers.push_back(std::move(tensor));
    }
    return answers;
  }

  std::vector<HostTensor> after_inference(Executable& executable, const CheckFeeds& feeds) const {
    train_one(executable, feeds,
              0);  // the timed path has run on this batch before it is asked for its logits
    executable.synchronize();
    std::vector<HostTensor> answers;
    answers.push_back(evaluated(executable, program_, feeds, "logits"));
    return answers;
  }

  std::vector<HostTensor> after_training(Executable& executable, const CheckFeeds& feeds) const {
    std::vector<HostTensor> answers;
    HostTensor losses = HostTensor::zeros("losses", {DType::f64, {feeds.steps()}});
    for (std::int64_t step = 0; step < feeds.steps(); ++step) {
      train_one(executable, feeds, step);
      losses.as<double>()[static_cast<std::size_t>(step)] = executable.loss();
    }
    executable.synchronize();
    answers.push_back(std::move(losses));
    for (HostTensor& tensor : executable.state()) {
      const Kept kind = kind_of(program_, tensor.name);
      tensor.name = (kind == Kept::parameter ? "parameter/"
                     : kind == Kept::running ? "running/"
                                             : "moment/") +
                    tensor.name;
      answers.push_back(std::move(tensor));
    }
    return answers;
  }

  const Program& program_;
  bool trains_;
};

// A single op gives the same before timing and after: what one step on the check's operands computes.
class OpAnswers : public Answers {
 public:
  OpAnswers(const Program& program, Task task) : graph_(program.graph(task)) {}

  std::vector<HostTensor> check(Executable& executable, const CheckFeeds& feeds) const override {
    return one_step(executable, feeds);
  }
  std::vector<HostTensor> verify(Executable& executable, const CheckFeeds& feeds) const override {
    return one_step(executable, feeds);
  }
  std::vector<HostTensor> oracle(Executable& executable, const CheckFeeds& feeds) const override {
    std::vector<HostTensor> all;
    add_under(all, "check/", one_step(executable, feeds));
    return all;
  }
  bool draws_masks() const override { return true; }

  // Whole numbers among the operands stay what they are.
  std::vector<std::span<float>> real_inputs(HostTensor& inputs) const override {
    const std::span<float> values = inputs.as<float>();
    std::vector<std::span<float>> real;
    for (const auto& [name, offset] : input_offsets(graph_)) {
      const TensorType& type = graph_.value(graph_.find(name)).type;
      if (type.dtype != DType::f32) continue;
      real.push_back(
          values.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(type.elements())));
    }
    return real;
  }

 private:
  static std::vector<HostTensor> one_step(Executable& executable, const CheckFeeds& feeds) {
    executable.supply_masks(feeds.masks);
    executable.set_state(feeds.parameters);
    executable.stage(0, feeds.batch());
    executable.step(0, 0, 1);
    executable.synchronize();
    std::vector<HostTensor> answers = executable.results();
    for (HostTensor& tensor : answers) {
      if (!tensor.name.starts_with("gradient/")) tensor.name = "result/" + tensor.name;
    }
    add_under(answers, "running/", executable.state());
    return answers;
  }

  const Graph& graph_;
};

}  // namespace

std::unique_ptr<Answers> answers_of(const Program& program, Task task) {
  if (program.is_op()) return std::make_unique<OpAnswers>(program, task);
  return std::make_unique<NetworkAnswers>(program, task);
}

}  // namespace assay

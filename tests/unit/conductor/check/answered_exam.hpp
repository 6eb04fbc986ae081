// An exam with an oracle's and a worker's answers made up by hand: the numbers mean nothing, their
// relation does.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/exam.hpp"
#include "harness/conductor/check/expected_tensors.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/graph/builder.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {

// convolution - batch norm - relu - linear: with state, and so small that it can be looked at.
inline Program tiny_program(std::int64_t batch, OptimizerSpec optimizer = {}) {
  const auto build = [&](bool training) {
    Graph graph(training ? "tiny" : "tiny_inference");
    GraphBuilder builder(graph, training);
    const ValueId x = builder.input("inputs", {batch, 1, 4, 4});
    const ValueId labels = builder.label("labels", {batch});
    const ValueId hidden =
        builder.relu(builder.batch_norm("bn1", builder.convolution("conv1", x, 2, {.kernel = 3})));
    const ValueId logits = builder.linear("fc1", builder.flatten(hidden), 3);
    graph.add_output("logits", logits);
    if (training) graph.add_output("loss", builder.softmax_cross_entropy(logits, labels, "loss"));
    return graph;
  };
  return {build(true), build(false), std::move(optimizer)};
}

class AnsweredExam {
 public:
  explicit AnsweredExam(OptimizerSpec optimizer = {}, Task task = Task::train, std::int64_t batch = 8)
      : program_(tiny_program(batch, std::move(optimizer))) {
    write_exam(folder() / "check", program_, {7, 4, 2, task, PrecisionKind::fp32});
    exam_ = {folder() / "check", folder() / "oracle.safetensors", task, PrecisionKind::fp32};
    batches_ = read_exam_batches(folder() / "check/batches.json");
    for (const ExpectedTensor& expected : expected()) answer(expected);
    if (task != Task::train) return;
    for (const ValueId id : program_.training->with_role(Role::parameter)) {
      const Value& value = program_.training->value(id);
      add_exact("gradient/" + value.name, value.type.shape);
    }
    continue_run();
  }

  const std::filesystem::path& folder() const { return temporary_.path(); }
  const Program& program() const { return program_; }
  const Exam& exam() const { return exam_; }
  std::filesystem::path worker_file() const { return folder() / "verify.safetensors"; }
  std::vector<ExpectedTensor> expected() const {
    return expected_tensors(program_, exam_.task, batches_, exam_.task == Task::train);
  }
  // The verdicts on the continuation, one for each tensor of the program's state.
  std::vector<std::string> continued() const {
    std::vector<std::string> names;
    for (const HostTensor& tensor : read_safetensors(folder() / "check/state.safetensors"))
      names.push_back("continuation/" + tensor.name);
    return names;
  }
  // The worker's tensor, to be spoilt.
  HostTensor& worker(const std::string& name) { return worker_.at(name); }
  HostTensor& add(const std::string& name, Shape shape) {
    return worker_.emplace(name, HostTensor::zeros(name, {DType::f32, std::move(shape)})).first->second;
  }
  // The oracle's.
  HostTensor& oracle(const std::string& name) { return *std::ranges::find(oracle_, name, &HostTensor::name); }
  // The errors of the oracle's perturbed runs, largest and L2.
  void bound(const std::string& name, double seen) {
    std::ranges::fill(oracle("bound/" + name).as<double>(), seen);
  }
  // The errors of elements on the other side of a tie, largest and L2.
  void flips(const std::string& name, double error) {
    oracle_.push_back(HostTensor::zeros("flips/" + name, {DType::f64, {2}}));
    std::ranges::fill(oracle_.back().as<double>(), error);
  }
  void count_ties(const std::string& op, double tipped, double elements) {
    oracle_.push_back(HostTensor::zeros("ties/" + op, {DType::f64, {2}}));
    oracle_.back().as<double>()[0] = tipped;
    oracle_.back().as<double>()[1] = elements;
  }
  void lose(const std::string& name) { worker_.erase(name); }

  Equivalence judged() {
    write();
    return judge(exam_, program_, worker_file());
  }
  void write() {
    std::vector<HostTensor> tensors;
    for (const auto& [name, tensor] : worker_) tensors.push_back(tensor);
    write_safetensors(worker_file(), tensors);
    write_safetensors(exam_.answers, oracle_);
  }

  // An answer of the oracle with its bound.
  void add_exact(const std::string& name, Shape shape, bool square = false) {
    HostTensor exact = HostTensor::zeros(name, {DType::f64, std::move(shape)});
    double scale = 0.02;
    for (double& value : exact.as<double>()) {
      value = (scale = scale < 0 ? 0.013 - 1.01 * scale : -0.017 - scale * 1.02);
      if (square) value = std::abs(value);
    }
    HostTensor bound = HostTensor::zeros("bound/" + name, {DType::f64, {2}});
    std::ranges::fill(bound.as<double>(), 1e-7);
    oracle_.push_back(std::move(exact));
    oracle_.push_back(std::move(bound));
  }

 private:
  // The steps moved each tensor by a tenth, with and without pauses by the same.
  void continue_run() {
    for (const StateTensor& tensor : state_tensors(program_)) {
      for (const auto& [run, value] : {std::pair("start", 1.0f), {"unwaited", 1.1f}, {"waited", 1.1f}})
        std::ranges::fill(
            add("continuation/" + std::string(run) + "/" + tensor.name, tensor.shape).as<float>(), value);
    }
  }

  void answer(const ExpectedTensor& expected) {
    Shape shape = expected.shape;
    if (expected.rows) shape.at(shape.size() - 2) = batches_.distinct;
    add_exact(expected.name, shape, expected.square);
    const std::vector<double> exact = to_doubles(oracle(expected.name));
    HostTensor mine = HostTensor::zeros(expected.name, {DType::f32, expected.shape});
    const std::size_t row = expected.rows ? static_cast<std::size_t>(shape.back()) : 1;
    const std::size_t rows = expected.rows ? batches_.row_of.size() : exact.size();
    for (std::size_t i = 0; i < mine.as<float>().size(); ++i) {
      const std::size_t batch = i / row / rows, r = i / row % rows;
      const std::size_t source = expected.rows ? batch * static_cast<std::size_t>(batches_.distinct) +
                                                     static_cast<std::size_t>(batches_.row_of[r])
                                               : r;
      mine.as<float>()[i] = static_cast<float>(exact[source * row + i % row]);
    }
    worker_.emplace(expected.name, std::move(mine));
  }

  TemporaryFolder temporary_;
  Program program_;
  Exam exam_;
  ExamBatches batches_;
  std::map<std::string, HostTensor> worker_;
  std::vector<HostTensor> oracle_;
};

}  // namespace assay

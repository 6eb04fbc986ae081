// A cell folder with an oracle's and a worker's answers made up by hand: the numbers mean nothing, their
// relation does.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/expected_tensors.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/conductor/check/update_judge.hpp"
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

inline void write_request(const std::filesystem::path& folder, PrecisionKind precision, Task task) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "request.json")
      << nlohmann::json{{"protocol", 1},   {"task", to_string(task)},
                        {"mode", "graph"}, {"precision", to_string(precision)},
                        {"batch", 8},      {"check", {{"distinct", 4}, {"perturbations", 2}}}};
}

class AnsweredCell {
 public:
  explicit AnsweredCell(OptimizerSpec optimizer = {}, Task task = Task::train, std::int64_t batch = 8)
      : program_(tiny_program(batch, std::move(optimizer))), task_(task) {
    write_request(folder(), PrecisionKind::fp32, task);
    batch_ = write_check(folder(), program_, 7, 4);
    for (const char* phase : {"check", "verify"}) answer(phase);
  }

  const std::filesystem::path& folder() const { return temporary_.path(); }
  const Program& program() const { return program_; }
  // The worker's tensor of a phase, to be spoilt.
  HostTensor& worker(const std::string& phase, const std::string& name) { return worker_.at(phase).at(name); }
  // What the oracle's perturbed runs saw, largest and L2.
  void bound(const std::string& phase, const std::string& name, double seen) {
    for (HostTensor& tensor : oracle_) {
      if (tensor.name == "bound/" + phase + "/" + name) std::ranges::fill(tensor.as<double>(), seen);
    }
  }
  void count_ties(const std::string& op, double tipped, double elements) {
    oracle_.push_back(HostTensor::zeros("ties/" + op, {DType::f64, {2}}));
    oracle_.back().as<double>()[0] = tipped;
    oracle_.back().as<double>()[1] = elements;
  }
  void lose(const std::string& phase, const std::string& name) { worker_.at(phase).erase(name); }

  // What a worker does that multiplies its gradients and its updates by a mistake, consistently.
  void update_from_gradients(double gradient_factor, double update_factor) {
    const TensorFile old_state = TensorFile::read(folder() / "check" / "parameters.safetensors");
    const std::vector<double> schedule = TensorFile::read_array(folder() / "check" / "schedule.npy");
    for (const ValueId id : program_.training.with_role(Role::parameter)) {
      const std::string& name = program_.training.value(id).name;
      const std::vector<double> old = old_state.required(name);
      OptimizerSpec decayed = program_.optimizer;
      decayed.weight_decay = decayed.decay_of(program_.training.value(id).type.shape);
      std::map<std::string, HostTensor>& check = worker_.at("check");
      for (std::size_t i = 0; i < old.size(); ++i) {
        float& g = check.at("gradient/" + name).as<float>()[i];
        g = static_cast<float>(g * gradient_factor);
        const OptimizerElement after = optimizer_step(decayed, {old[i], {}}, g, schedule[0], 1);
        const double change = (after.parameter - old[i]) * update_factor;
        check.at("updated/" + name).as<float>()[i] = static_cast<float>(old[i] + change);
        std::size_t m = 0;
        for (const std::string& moment : program_.optimizer.moments()) {
          check.at("updated/" + name + "." + moment).as<float>()[i] = static_cast<float>(after.moments[m++]);
        }
      }
    }
  }

  Equivalence judged(const std::string& phase) {
    std::filesystem::create_directories(folder() / "results");
    std::vector<HostTensor> tensors;
    for (const auto& [name, tensor] : worker_.at(phase)) tensors.push_back(tensor);
    write_safetensors(folder() / "results" / (phase + ".safetensors"), tensors);
    write_safetensors(oracle_file(), oracle_);
    return judge(folder(), oracle_file(), phase, program_);
  }
  std::filesystem::path oracle_file() const { return folder() / "oracle.safetensors"; }

 private:
  void answer(const std::string& phase) {
    for (const ExpectedTensor& expected : expected_tensors(program_, task_, phase, 3)) {
      HostTensor mine = HostTensor::zeros(expected.name, {DType::f32, expected.shape});
      if (!expected.update) {
        Shape shape = expected.shape;
        if (expected.rows) shape.front() = batch_.distinct;
        HostTensor exact = HostTensor::zeros(phase + "/" + expected.name, {DType::f64, shape});
        double scale = 0.02;
        for (double& value : exact.as<double>())
          value = (scale = scale < 0 ? 0.013 - 1.01 * scale : -0.017 - scale * 1.02);
        if (expected.square) {
          for (double& value : exact.as<double>()) value = std::abs(value);
        }
        const std::size_t row =
            exact.as<double>().size() / static_cast<std::size_t>(expected.rows ? batch_.distinct : 1);
        for (std::size_t i = 0; i < mine.as<float>().size(); ++i) {
          const std::size_t source =
              expected.rows ? static_cast<std::size_t>(batch_.row_of[i / row]) * row + i % row : i;
          mine.as<float>()[i] = static_cast<float>(exact.as<double>()[source]);
        }
        HostTensor bound = HostTensor::zeros("bound/" + exact.name, {DType::f64, {2}});
        bound.as<double>()[0] = 1e-7;
        bound.as<double>()[1] = 1e-7;
        oracle_.push_back(std::move(exact));
        oracle_.push_back(std::move(bound));
      }
      worker_[phase].emplace(expected.name, std::move(mine));
    }
    if (phase == "check" && task_ == Task::train) update_from_gradients(1, 1);
  }

  TemporaryFolder temporary_;
  Program program_;
  Task task_;
  CheckBatch batch_;
  std::map<std::string, std::map<std::string, HostTensor>> worker_;
  std::vector<HostTensor> oracle_;
};

}  // namespace assay

// Small programs, trained by backend cuda on the stand-in.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backends/cuda/choices.hpp"
#include "backends/cuda/library.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay::cuda {

enum class Search : std::uint8_t { none, measured };

struct ProgramCase {
  std::string workload;
  const char* mode;
  PrecisionKind precision;
  Search search = Search::none;
};
inline void PrintTo(const ProgramCase& c, std::ostream* stream) {
  std::string name = c.workload + "_" + c.mode;
  std::ranges::replace(name, '-', '_');
  *stream << name << "_" << to_string(c.precision) << (c.search == Search::measured ? "_measured" : "");
}

inline Program small_program(const std::string& workload) {
  if (workload == "residual") return testing::residual_program(3);
  if (workload == "lstm") return find_workload(workload).build(2, {6}, 2);
  return testing::small_form(workload, 3);
}

inline CompileOptions options_of(const ProgramCase& c) {
  CompileOptions options = testing::options(c.mode, c.precision);
  options.deterministic = c.search == Search::none;
  return options;
}

inline ConvolutionSpec small_convolution() {
  ConvolutionSpec spec;
  spec.n = spec.c = spec.k = 2;
  spec.h = spec.w = spec.p = spec.q = 4;
  spec.r = spec.s = 3;
  spec.rows = spec.columns = {.before = 1, .after = 1};
  spec.channels_last = true;
  return spec;
}

// Small enough that no network diverges in a few steps.
inline std::vector<HostTensor> small_parameters(const Program& program) {
  std::vector<HostTensor> tensors = testing::parameters(program, 1);
  for (HostTensor& tensor : tensors) {
    const Shape& shape = tensor.type.shape;
    const auto terms = static_cast<float>(tensor.type.elements() / shape.front());  // of each sum
    for (float& element : tensor.as<float>()) element *= std::min(1.0F, 10 / std::sqrt(terms));
  }
  return tensors;
}

// With labels that the network knows.
inline testing::Batch batch_of(const Program& program, std::uint64_t seed) {
  const auto classes = static_cast<std::int32_t>(
      program.inference.value(program.inference.output("logits")).type.shape.back());
  testing::Batch batch = testing::batch(program, seed);
  for (std::int32_t& label : batch.labels) label %= classes;
  return batch;
}

// Trains on two batches that stay and then on batches that come with each step, with an evaluation in between, as a run
// does. Returns the logits, the state and the loss. peak: of the device's memory, if it is wanted.
inline std::vector<HostTensor> trained(const Program& program, const CompileOptions& options,
                                       std::int64_t* peak = nullptr, std::shared_ptr<Nccl> ranks = nullptr,
                                       double learning_rate = 1e-2) {
  KernelExecutable executable(program, options,
                              make_kernel_library(options, std::make_shared<Choices>(), std::move(ranks)));
  executable.set_state(small_parameters(program));
  const Shape logits = program.inference.value(program.inference.output("logits")).type.shape;
  const auto stage = [&](std::int64_t slot, std::uint64_t seed) {
    testing::Batch batch = batch_of(program, seed);
    executable.stage(slot, batch.host());
    std::ranges::fill(batch.inputs, 1e30F);  // the caller may reuse it
    std::ranges::fill(batch.labels, 0);
  };
  stage(0, 0);
  stage(1, 1);
  for (int step = 1; step <= 3; ++step) executable.step(step % 2, learning_rate, step);
  std::vector<HostTensor> results{HostTensor::zeros("logits", {DType::f32, logits})};
  executable.evaluate(testing::batch(program, 7).host(), results.front().as<float>().data());
  for (int step = 4; step <= 8; ++step) {
    stage(step % 2, static_cast<std::uint64_t>(step));
    executable.step(step % 2, learning_rate, step);
  }
  for (HostTensor& tensor : executable.state()) results.push_back(std::move(tensor));
  results.push_back(HostTensor::zeros("loss", {DType::f32, {}}));
  results.back().as<float>()[0] = static_cast<float>(executable.loss());
  if (peak != nullptr) *peak = executable.memory().at("framework_peak");
  return results;
}

}  // namespace assay::cuda

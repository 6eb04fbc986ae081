// Small programs with parameters and batches for the tests of executors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/reference/reference_backend.hpp"
#include "harness/core/tensor.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/program.hpp"
#include "harness/worker/backend.hpp"
#include "workloads/workload.hpp"

namespace assay::testing {

// Repeatable values in [-1, 1), far from each other.
inline float noise(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15U + index * 0xbf58476d1ce4e5b9U + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return static_cast<float>((x >> 40) & 0xffffff) / 8388608.0F - 1.0F;
}

// Every parameter small and none constant; state at its initial value is left out.
inline std::vector<HostTensor> parameters(const Program& program, std::uint64_t seed) {
  std::vector<HostTensor> tensors;
  for (const Value& value : program.training->values()) {
    if (value.role != Role::parameter) continue;
    HostTensor tensor{value.name, {DType::f32, value.type.shape}, {}};
    tensor.bytes.resize(static_cast<std::size_t>(tensor.type.bytes()));
    const auto elements = tensor.as<float>();
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = 0.1F * noise(seed + tensors.size(), i);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

struct Batch {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  HostBatch host() const { return {inputs.data(), labels.data()}; }
};

inline Batch batch(const Program& program, std::uint64_t seed) {
  Batch batch;
  for (const Value& value : program.training->values()) {
    if (value.role == Role::input) batch.inputs.resize(static_cast<std::size_t>(value.type.elements()));
    if (value.role == Role::label) batch.labels.resize(static_cast<std::size_t>(value.type.elements()));
  }
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) batch.inputs[i] = noise(seed + 1000, i);
  for (std::size_t i = 0; i < batch.labels.size(); ++i)
    batch.labels[i] = static_cast<std::int32_t>((i * 7 + seed) % 10);
  return batch;
}

// Batch norm with a residual: a value used twice, saved outputs, running statistics.
inline Program residual_program(std::int64_t samples, OptimizerSpec optimizer = {}) {
  const Workload workload{.name = "residual",
                          .description = {},
                          .source = {},
                          .dataset = {},
                          .sample_shape = {3, 8, 8},
                          .classes = 10,
                          .batch = samples,
                          .optimizer = std::move(optimizer),
                          .learning_rate = 1e-3,
                          .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
                            x = b.relu(b.batch_norm("bn1", b.convolution("conv1", x, 4, {3, 1, 1}, false)));
                            const ValueId y = b.batch_norm("bn2", b.convolution("conv2", x, 4, {3, 1, 1}));
                            x = b.max_pool(b.relu(b.add(x, y)), {2, 2, 0});
                            return b.linear("fc", b.flatten(x), classes);
                          }};
  return workload.build(samples);
}

// The small form of a network, or the network with a batch of its own size.
inline Program small_form(const std::string& network, std::int64_t batch = 2) {
  const Workload& workload = find_workload(network);
  return workload.small.batch > 0 ? workload.build_small() : workload.build(batch);
}

inline CompileOptions options(const std::string& mode, PrecisionKind precision = PrecisionKind::fp32,
                              int threads = 2) {
  CompileOptions options;
  options.mode = mode;
  options.precision = precision_of(precision);
  options.threads = threads;
  options.gradients = true;
  return options;
}

}  // namespace assay::testing

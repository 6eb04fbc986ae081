// The nodes of each network's step, one by one, as an ordinary Google Benchmark program: its flags, its JSON.
// It shows what a kernel costs without the step around it.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "harness/engine/lowered_graph.hpp"
#include "harness/engine/memory.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "harness/worker/backend.hpp"
#include "tests/backend_under_test.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

// Numbers from 0.5 to 1.5, no two neighbours equal; indices, labels and opaque operands are zero.
void fill(const Buffer& buffer, Memory& memory, Storage& storage) {
  storage.clear();
  if (buffer.first.type.dtype != DType::f32 || buffer.first.type.shape.empty()) return;
  std::vector<float> numbers(static_cast<std::size_t>(buffer.bytes) / sizeof(float));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = 0.5F + static_cast<float>(i * 7919 % 1009) / 1009;
  const auto bytes = static_cast<std::int64_t>(numbers.size() * sizeof(float));
  memory.copy(storage.data(), memory.land(numbers.data(), bytes), bytes);
}

// A whole step, lowered as in graph mode, with separate memory for every buffer.
struct Step {
  std::unique_ptr<KernelLibrary> library;
  LoweredGraph lowered;
  std::vector<Storage> memory, scratch;

  Step(const Program& program, const CompileOptions& options)
      : library(under_test::make_kernel_library(options)),
        lowered(lower(training_step(program, {options.precision, false, false}), *library, {})) {
    for (const Buffer& buffer : lowered.buffers)
      fill(buffer, library->memory(), memory.emplace_back(library->memory(), buffer.bytes, "a benchmark"));
    for (LoweredStep& step : lowered.steps) {
      scratch.emplace_back(library->memory(), step.scratch_bytes, "a benchmark").clear();
      std::vector<void*> inputs, outputs;
      for (const int b : step.inputs)
        inputs.push_back(b == none ? nullptr : memory[static_cast<std::size_t>(b)].data());
      for (const int b : step.outputs)
        outputs.push_back(b == none ? nullptr : memory[static_cast<std::size_t>(b)].data());
      step.kernel->bind(inputs, outputs, scratch.back().data());
    }
  }
};

void measure(benchmark::State& state, Step& step, std::size_t index) {
  Kernel* const kernel = step.lowered.steps[index].kernel.get();
  for (auto _ : state) {
    step.library->run({&kernel, 1});
    step.library->synchronize();
  }
  const Graph& graph = step.lowered.graph;
  for (const Node& node : graph.nodes()) {
    if (node.name != step.lowered.steps[index].node || step.lowered.steps[index].op == "reorder") continue;
    const Cost once = cost(graph, node);
    state.counters["FLOP/s"] = benchmark::Counter(once.flops, benchmark::Counter::kIsIterationInvariantRate);
    state.counters["bytes/s"] = benchmark::Counter(once.bytes, benchmark::Counter::kIsIterationInvariantRate);
  }
}

void add_workload(const Workload& workload) {
  CompileOptions options;
  options.mode = "graph";
  options.threads = static_cast<int>(std::thread::hardware_concurrency());
  std::shared_ptr<Step> step;
  try {
    step = std::make_shared<Step>(workload.build(workload.batch), options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: left out, {}\n", workload.name, error.what());
    return;
  }
  for (std::size_t i = 0; i < step->lowered.steps.size(); ++i) {
    const LoweredStep& one = step->lowered.steps[i];
    const std::string name = fmt::format("{}/{}/{}/{}", one.op, workload.name, workload.batch, one.node);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [step, i](benchmark::State& state) { measure(state, *step, i); })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  for (const assay::Workload& workload : assay::all_workloads()) assay::add_workload(workload);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

// The nodes of a network's step, one by one, as an ordinary Google Benchmark program: its flags, its JSON, and
//   --workload=NAME,...   those networks (default: all)
//   --precision=NAME      fp32, tf32 or bf16 (default: fp32)
// It shows what a kernel costs without the step around it.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "harness/core/domain.hpp"
#include "harness/engine/lowered_graph.hpp"
#include "harness/engine/memory.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "harness/worker/backend.hpp"
#include "tests/backend_under_test.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

template <typename T, typename Number>
void fill(Memory& memory, Storage& storage, std::int64_t bytes, const Number& number) {
  std::vector<T> numbers(static_cast<std::size_t>(bytes) / sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = number(i);
  const auto filled = static_cast<std::int64_t>(numbers.size() * sizeof(T));
  memory.copy(storage.data(), memory.land(numbers.data(), filled), filled);
}

// Numbers from 0.5 to 1.5, no two neighbours equal; indices, labels and opaque operands are zero.
void fill(const Buffer& buffer, Memory& memory, Storage& storage) {
  storage.clear();
  if (buffer.first.type.shape.empty()) return;
  if (buffer.first.type.dtype == DType::f32) {
    fill<float>(memory, storage, buffer.bytes,
                [](std::size_t i) { return 0.5F + static_cast<float>(i * 7919 % 1009) / 1009; });
  } else if (buffer.first.type.dtype == DType::bf16) {
    fill<std::uint16_t>(memory, storage, buffer.bytes,
                        [](std::size_t i) { return static_cast<std::uint16_t>(0x3f00 + i * 7919 % 191); });
  }
}

// A whole step, lowered as in graph mode, with separate memory for every buffer.
struct Step {
  std::unique_ptr<KernelLibrary> library;
  LoweredGraph lowered;
  std::vector<Storage> memory, scratch;

  Step(const Program& program, const CompileOptions& options)
      : library(under_test::make_kernel_library(options)),
        lowered(lower(training_step(program, {options.precision, false, false}), *library, {})) {
    for (const Buffer& buffer : lowered.buffers) {
      const bool is_part = buffer.kind == Buffer::Kind::part;
      const std::int64_t bytes = is_part ? 0 : buffer.bytes;
      Storage& storage = memory.emplace_back(library->memory(), bytes, "a benchmark");
      if (!is_part) fill(buffer, library->memory(), storage);
    }
    const auto place = [&](int b) -> void* {
      if (b == none) return nullptr;
      auto* const whole = static_cast<std::byte*>(memory[static_cast<std::size_t>(lowered.holder(b))].data());
      return whole + lowered.buffers[static_cast<std::size_t>(b)].offset;
    };
    for (LoweredStep& step : lowered.steps) {
      scratch.emplace_back(library->memory(), step.scratch_bytes, "a benchmark").clear();
      std::vector<void*> inputs, outputs;
      for (const int b : step.inputs) inputs.push_back(place(b));
      for (const int b : step.outputs) outputs.push_back(place(b));
      step.kernel->bind(inputs, outputs, scratch.back().data());
    }
  }
};

void measure(benchmark::State& state, Step& step, std::size_t index) {
  // As many in one go, so that a device does not wait for the host.
  const std::vector<Kernel*> kernels(16, step.lowered.steps[index].kernel.get());
  step.library->run(kernels);
  step.library->synchronize();
  const std::unique_ptr<Recording> recording = step.library->record(kernels, {});
  while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(kernels.size()))) {
    if (recording != nullptr)
      recording->run();
    else
      step.library->run(kernels);
    step.library->synchronize();
  }
  state.SetLabel(std::string(kernels.front()->implementation()));
  const Graph& graph = step.lowered.graph;
  for (const Node& node : graph.nodes()) {
    if (node.name != step.lowered.steps[index].node || step.lowered.steps[index].op == "reorder") continue;
    const Cost once = cost(graph, node);
    state.counters["FLOP/s"] = benchmark::Counter(once.flops, benchmark::Counter::kIsIterationInvariantRate);
    state.counters["bytes/s"] = benchmark::Counter(once.bytes, benchmark::Counter::kIsIterationInvariantRate);
  }
}

void add_workload(const Workload& workload, PrecisionKind precision) {
  CompileOptions options;
  options.mode = "graph";
  options.precision = precision_of(precision);
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
  benchmark::Initialize(&argc, argv);
  std::string only = ",", precision = "fp32";
  std::vector<char*> others;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    constexpr std::string_view of_workload = "--workload=", of_precision = "--precision=";
    if (argument.starts_with(of_workload))
      only += std::string(argument.substr(of_workload.size())) + ",";
    else if (argument.starts_with(of_precision))
      precision = argument.substr(of_precision.size());
    else
      others.push_back(argv[i]);
  }
  int left = static_cast<int>(others.size());
  if (benchmark::ReportUnrecognizedArguments(left, others.data())) return 2;
  const auto kind = assay::from_word<assay::PrecisionKind>(precision);
  if (!kind.has_value()) {
    fmt::print(stderr, "--precision={} is not known: fp32, tf32 or bf16\n", precision);
    return 2;
  }
  for (const assay::Workload& workload : assay::all_workloads()) {
    if (only != "," && only.find("," + std::string(workload.name) + ",") == std::string::npos) continue;
    assay::add_workload(workload, *kind);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

#include "tests/ops/op_benchmark.hpp"

#include <benchmark/benchmark.h>

#include <memory>

#include "harness/conductor/fork/work.hpp"
#include "tests/ops/op_run.hpp"

namespace assay {
namespace {

// Google Benchmark calls a function again and again until it knows how many iterations to do.
OpRun& prepared(const Cell& cell) {
  static std::unique_ptr<OpRun> latest;
  if (!latest || latest->id() != cell.id) {
    latest.reset();  // before the next one: cold operands are large
    latest = std::make_unique<OpRun>(cell);
  }
  return *latest;
}

void measure(benchmark::State& state, const Cell& cell) {
  OpRun* run = nullptr;
  try {
    run = &prepared(cell);
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
    return;
  }
  // As in a block: drained at its end, not after every step.
  while (state.KeepRunningBatch(state.max_iterations)) run->steps(state.max_iterations);
  const Work work = work_of(cell);
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  if (work.flops > 0) state.counters["FLOP/s"] = benchmark::Counter(work.flops, rate);
  if (work.bytes > 0) state.counters["bytes/s"] = benchmark::Counter(work.bytes, rate);
}

}  // namespace

benchmark::internal::Benchmark* register_op(const Cell& cell) {
  return benchmark::RegisterBenchmark(cell.id.c_str(),
                                      [cell](benchmark::State& state) { measure(state, cell); })
      ->UseRealTime();
}

void register_op_suite(const std::string& backend) {
  for (const Cell& cell : op_suite(backend)) register_op(cell);
}

}  // namespace assay

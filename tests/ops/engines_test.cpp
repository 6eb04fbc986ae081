// Two engines time the operator suite, the block clock of the batch library and Google Benchmark: they time
// the same cells, the same work, and say the same of the same steps.
#include <benchmark/benchmark.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "harness/batch/c_api.h"
#include "harness/conductor/fork/work.hpp"
#include "harness/worker/trainer.hpp"
#include "tests/backend_under_test.hpp"
#include "tests/ops/op_benchmark.hpp"
#include "tests/ops/op_run.hpp"
#include "workloads/ops/op_workload.hpp"

namespace assay {
namespace {

using Row = benchmark::BenchmarkReporter::Run;

class Keeping final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Row>& runs) override {
    kept.insert(kept.end(), runs.begin(), runs.end());
  }
  std::vector<Row> kept;
};

// Google Benchmark's output for all registered benchmarks.
std::vector<Row> benchmarked() {
  Keeping reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter, "all");
  benchmark::ClearRegisteredBenchmarks();
  return reporter.kept;
}

Cell cell_of(std::string_view op, std::string_view size, Task task, CacheState cache = CacheState::warm) {
  for (const Cell& cell : op_suite(under_test::backend)) {
    const Axes& axes = cell.axes;
    if (axes.workload == op && axes.size == size && axes.task == task && axes.cache == cache) return cell;
  }
  throw std::runtime_error("the cell is missing");
}

// Blocks of one step, after a warm-up of one.
Cell short_blocks(Cell cell, int blocks) {
  cell.measure.blocks = blocks;
  cell.measure.block_seconds = 0;
  cell.measure.warm_up_steps = 1;
  cell.measure.warm_up_seconds = 0;
  return cell;
}

struct Kernel {
  const char *op, *size;
  Task task;
};
TEST(Engines, suite_has_each_op_size_and_direction) {
  std::set<std::string> warm;
  for (const Cell& cell : op_suite(under_test::backend)) {
    if (cell.axes.cache == CacheState::warm)
      warm.insert(cell.axes.workload + " " + cell.axes.size + " " + cell.axes.text("task"));
  }
  std::set<std::string> expected;
  for (const OpWorkload& op : all_op_workloads()) {
    for (const std::string& size : op.sizes) {
      expected.insert(op.name + " " + size + " infer");
      if (op.differentiable) expected.insert(op.name + " " + size + " train");
    }
  }
  EXPECT_EQ(warm, expected);
}

TEST(Engines, runs_every_op_as_a_benchmark_with_its_work) {
  std::vector<Cell> cells;
  for (const OpWorkload& op : all_op_workloads()) {
    cells.push_back(cell_of(op.name, op.sizes.front(), op.differentiable ? Task::train : Task::infer));
    register_op(cells.back())->Iterations(3);
  }
  const std::vector<Row> runs = benchmarked();
  ASSERT_EQ(runs.size(), cells.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    SCOPED_TRACE(cells[i].id);
    EXPECT_FALSE(runs[i].error_occurred) << runs[i].error_message;
    EXPECT_EQ(runs[i].run_name.function_name, cells[i].id);
    EXPECT_EQ(runs[i].iterations, 3);
    const Work work = work_of(cells[i]);
    const double seconds = runs[i].real_accumulated_time / 3;
    const auto counted = [&](const char* name) {
      const auto found = runs[i].counters.find(name);
      return found == runs[i].counters.end() ? 0 : found->second.value * seconds;
    };
    EXPECT_NEAR(counted("FLOP/s"), work.flops, 1e-6 * work.flops);
    EXPECT_NEAR(counted("bytes/s"), work.bytes, 1e-6 * work.bytes);
  }
}

// Both start from the cell folder of one seed.
TEST(Engines, compute_the_same_bits) {
  for (const Kernel& kernel :
       {Kernel{"op/relu", "65536", Task::infer}, Kernel{"op/linear", "m64", Task::train},
        Kernel{"op/dropout", "4096", Task::train}}) {
    SCOPED_TRACE(kernel.op);
    const Cell cell = short_blocks(cell_of(kernel.op, kernel.size, kernel.task), 4);
    OpRun blocks(cell), plain(cell);
    train(blocks.executable(), blocks.supply(), Timed::op, {});
    plain.steps(5);  // as many: dropout draws by the number of the step
    const std::vector<HostTensor> some = blocks.executable().results(), others = plain.executable().results();
    ASSERT_EQ(some.size(), others.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
      EXPECT_EQ(some[i].name, others[i].name);
      EXPECT_TRUE(some[i].bytes == others[i].bytes) << some[i].name;
    }
  }
}

// The very same steps under both clocks, so that nothing else on the machine can make them differ: a block
// holds what the other engine times and the few calls between the two. Preemption just there happens to some
// blocks, and not to all.
TEST(Engines, say_the_same_time_of_the_same_steps) {
  constexpr int blocks = 20;
  for (const Kernel& kernel :
       {Kernel{"op/linear", "m256", Task::train}, Kernel{"op/softmax", "n1024", Task::infer}}) {
    SCOPED_TRACE(kernel.op);
    OpRun run(short_blocks(cell_of(kernel.op, kernel.size, kernel.task), blocks));
    const assay_block warm_up = run.supply().next_block();
    run.steps(warm_up.steps);
    run.supply().end_block(std::nan(""));
    for (int i = 0; i < blocks; ++i) {
      benchmark::RegisterBenchmark("both",
                                   [&run](benchmark::State& state) {
                                     const assay_block block = run.supply().next_block();
                                     while (state.KeepRunningBatch(state.max_iterations))
                                       run.steps(block.steps);
                                     run.supply().end_block(std::nan(""));
                                   })
          ->Iterations(1)
          ->UseRealTime();
    }
    const std::vector<Row> others = benchmarked();
    EXPECT_EQ(run.supply().next_block().kind, ASSAY_DONE);
    const std::vector<double> ours = run.timed_blocks();
    ASSERT_EQ(ours.size(), std::size_t{blocks});
    ASSERT_EQ(others.size(), std::size_t{blocks});
    double nearest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_GE(ours[i], others[i].real_accumulated_time);
      nearest = std::min(nearest, ours[i] / others[i].real_accumulated_time);
    }
    EXPECT_LT(nearest, 1.02);
  }
}

}  // namespace
}  // namespace assay

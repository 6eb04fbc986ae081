#include "harness/graph/memory_plan/summary.hpp"

#include <gtest/gtest.h>

#include "workloads/ops/op_workload.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

TEST(Summary, counts_lenet5_as_by_hand) {
  const ProgramSummary summary = summarise(find_workload("lenet5").build(200), {});
  EXPECT_EQ(summary.workload, "lenet5");
  EXPECT_EQ(summary.batch, 200);
  EXPECT_EQ(summary.parameters, 60170);
  const NodeSummary& conv1 = summary.inference.nodes.at(0);
  EXPECT_EQ(conv1.name, "conv1");
  EXPECT_EQ(conv1.op, "convolution");
  EXPECT_EQ(conv1.type, "f32 (200, 6, 24, 24)");
  EXPECT_EQ(conv1.parameters, 156);
  EXPECT_DOUBLE_EQ(conv1.flops, 2.0 * 200 * 6 * 24 * 24 * 25);
  EXPECT_DOUBLE_EQ(conv1.bytes, 4.0 * (200 * 28 * 28 + 156 + 200 * 6 * 24 * 24));
  // Parameters, two moments of Adam each.
  EXPECT_EQ(summary.training->persistent_bytes, 60170 * 3 * 4);
  EXPECT_EQ(summary.inference.persistent_bytes, 60170 * 4);
}

TEST(Summary, parts_add_up_and_plans_shrink) {
  for (const Workload& workload : all_workloads()) {
    const ProgramSummary summary = summarise(workload.build(16), precision_of(PrecisionKind::bf16));
    const double parts = summary.forward_flops + summary.backward_flops + summary.optimizer_flops;
    EXPECT_DOUBLE_EQ(parts, summary.training->flops);
    EXPECT_GT(summary.backward_flops, summary.forward_flops);
    for (const StepSummary* step : {&*summary.training, &summary.inference}) {
      // A network of only lookups and matrix products has nothing to overwrite.
      const bool elementwise = step == &*summary.training || workload.vocabulary == 0;
      EXPECT_LE(step->arena.in_place, step->arena.naive - (elementwise ? 1 : 0)) << workload.name;
      EXPECT_LT(step->arena.co_share, step->arena.in_place);
      // Placement is a heuristic: both rules together may need a little more than co-share alone.
      EXPECT_LE(step->arena.lower_bound, step->arena.co_share_only) << workload.name;
      EXPECT_LT(step->arena.co_share_only, step->arena.naive) << workload.name;
      EXPECT_LE(step->arena.lower_bound, step->arena.co_share);
      EXPECT_GT(step->arena.lower_bound, 0);
    }
  }
}

TEST(Summary, DescribesEverySingleOpAtItsDefaultSize) {
  for (const OpWorkload& op : all_op_workloads()) {
    const ProgramSummary summary = summarise(op.program(op.default_size), {});
    EXPECT_EQ(summary.training.has_value(), op.differentiable) << op.name;
    EXPECT_FALSE(summary.inference.nodes.empty()) << op.name;
  }
}

}  // namespace
}  // namespace assay

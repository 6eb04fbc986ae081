#include "harness/batch/block_plan.hpp"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

namespace assay {
namespace {

using Kind = PlannedBlock::Kind;

ClockRequest steps_request() {
  ClockRequest request;
  request.warm_up.min_steps = 10;
  request.warm_up.min_seconds = 0.5;
  request.block_seconds = 0.1;
  request.blocks = 5;
  return request;
}

// Runs the plan with a machine that takes `seconds(step)` for each step.
std::vector<PlannedBlock> run(BlockPlan& plan, const std::function<double(std::int64_t)>& seconds) {
  std::vector<PlannedBlock> blocks;
  while (true) {
    const PlannedBlock block = plan.next();
    if (block.kind == Kind::done) return blocks;
    double sum = 0;
    for (std::int64_t i = 0; i < block.steps; ++i) sum += seconds(block.first_step + i);
    plan.ended(static_cast<std::int64_t>(sum * 1e9));
    blocks.push_back(block);
  }
}

std::int64_t count(const std::vector<PlannedBlock>& blocks, Kind kind) {
  std::int64_t steps = 0;
  for (const PlannedBlock& block : blocks) steps += block.kind == kind ? block.steps : 0;
  return steps;
}

TEST(BlockPlan, warms_up_then_times_equal_blocks) {
  BlockPlan plan(steps_request(), 1'000'000);
  const auto blocks = run(plan, [](std::int64_t) { return 0.001; });
  EXPECT_EQ(blocks.front().steps, 10);
  EXPECT_EQ(count(blocks, Kind::warm_up), 510) << "10 steps, and five blocks of 100 until 0.5 s are over";
  ASSERT_EQ(blocks.size(), 1u + 5 + 5);
  for (std::size_t i = 6; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].kind, Kind::timed);
    EXPECT_EQ(blocks[i].steps, 100);
    EXPECT_EQ(blocks[i].first_step, 510 + 100 * static_cast<std::int64_t>(i - 6));
  }
  EXPECT_EQ(plan.steady(), true);
  EXPECT_EQ(plan.done(), plan.planned());
}

TEST(BlockPlan, does_not_count_a_slow_first_block_as_unsteady) {
  BlockPlan plan(steps_request(), 1'000'000);
  const auto blocks = run(plan, [](std::int64_t step) { return step == 0 ? 0.6 : 0.001; });
  EXPECT_EQ(plan.steady(), true);
  EXPECT_LT(count(blocks, Kind::warm_up), 200);
}

// Each warm-up block takes `seconds(number)` per step; returns the number of blocks.
int warm_up(BlockPlan& plan, const std::function<double(int)>& seconds) {
  for (int number = 0;; ++number) {
    const PlannedBlock block = plan.next();
    if (block.kind != Kind::warm_up) return number;
    plan.ended(static_cast<std::int64_t>(static_cast<double>(block.steps) * seconds(number) * 1e9));
  }
}

TEST(BlockPlan, a_disturbed_end_of_the_warm_up_does_not_make_timed_blocks_short) {
  BlockPlan plan(steps_request(), 1'000'000);
  const auto blocks = run(plan, [](std::int64_t step) { return step == 400 ? 5 : 0.001; });
  EXPECT_EQ(blocks.back().kind, Kind::timed);
  EXPECT_EQ(blocks.back().steps, 100);
}

TEST(BlockPlan, warms_up_longer_while_steps_still_get_faster) {
  BlockPlan plan(steps_request(), 1'000'000);
  const int blocks =
      warm_up(plan, [](int number) { return number < 10 ? 0.002 * std::pow(0.8, number) : 0.0002; });
  EXPECT_EQ(blocks, 12) << "the last two of them agree";
  EXPECT_EQ(plan.steady(), true);
  EXPECT_GT(plan.warm_up_seconds(), 0.7);
}

TEST(BlockPlan, says_that_a_machine_never_got_steady) {
  BlockPlan plan(steps_request(), 1'000'000);
  warm_up(plan, [](int number) { return number % 2 == 0 ? 0.01 : 0.013; });
  EXPECT_EQ(plan.steady(), false);
  EXPECT_GE(plan.warm_up_seconds(), 2.0);
  EXPECT_LT(plan.warm_up_seconds(), 2.3);
}

TEST(BlockPlan, has_only_the_first_block_without_seconds) {
  ClockRequest request = steps_request();
  request.warm_up.min_seconds = 0;
  BlockPlan plan(request, 1'000'000);
  const auto blocks = run(plan, [](std::int64_t) { return 0.01; });
  EXPECT_EQ(count(blocks, Kind::warm_up), 10);
  EXPECT_EQ(count(blocks, Kind::timed), 50);
  EXPECT_FALSE(plan.steady());
}

TEST(BlockPlan, times_exactly_the_steps_asked_for) {
  ClockRequest request = steps_request();
  request.warm_up.min_seconds = 0;
  request.steps = 77;
  BlockPlan plan(request, 1'000'000);
  const auto blocks = run(plan, [](std::int64_t) { return 0.01; });
  EXPECT_EQ(count(blocks, Kind::timed), 77);
  EXPECT_EQ(blocks.back().steps, 7);
}

TEST(BlockPlan, OnlyWarmsUpWithoutSteps) {
  ClockRequest request = steps_request();
  request.warm_up = {.min_steps = 1, .min_seconds = 0};
  request.steps = 0;
  BlockPlan plan(request, BlockPlan::rows_needed(request, {}));
  const auto blocks = run(plan, [](std::int64_t) { return 0.001; });
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].kind, Kind::warm_up);
  EXPECT_EQ(blocks[0].steps, 1);
  EXPECT_EQ(plan.done(), plan.planned());
}

TEST(BlockPlan, never_goes_past_the_schedule) {
  for (const double step : {0.0, 1e-9, 1e-6, 1e-3, 1.0}) {
    for (const std::int64_t rows : {30, 31, 100, 5000}) {
      BlockPlan plan(steps_request(), rows);
      const auto blocks = run(plan, [&](std::int64_t) { return step; });
      std::int64_t timed = 0;
      for (const PlannedBlock& block : blocks) {
        ASSERT_GE(block.steps, 1);
        ASSERT_LE(block.first_step + block.steps, rows);
        timed += block.kind == Kind::timed;
      }
      EXPECT_EQ(timed, 5) << step << " s a step, " << rows << " rows";
    }
  }
}

TEST(BlockPlan, OnlyEvaluatesWithoutEpochs) {
  ClockRequest request;
  request.kind = ClockKind::epochs;
  request.epochs = 0;
  request.evaluate = {"train", "test"};
  BlockPlan plan(request, 100, {}, {8, 2});
  const auto blocks = run(plan, [](std::int64_t) { return 1.0; });
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[1].kind, Kind::evaluate);
  EXPECT_EQ(blocks[1].split, "test");
  EXPECT_EQ(plan.done(), 0);
}

TEST(BlockPlan, HasBlocksOfOneStepIfABlockTakesNoTime) {
  ClockRequest request{.warm_up = {.min_steps = 1, .min_seconds = 0}, .block_seconds = 0};
  request.steps = 6;
  BlockPlan plan(request, 100);
  for (const PlannedBlock& block : run(plan, [](std::int64_t) { return 1e-3; })) EXPECT_EQ(block.steps, 1);
  EXPECT_EQ(plan.done(), 7);
}

TEST(BlockPlan, makes_one_block_an_epoch_followed_by_its_evaluations) {
  ClockRequest request;
  request.kind = ClockKind::epochs;
  request.epochs = 2;
  request.evaluate = {"train", "test"};
  BlockPlan plan(request, 100, {7, 7}, {8, 2});
  const auto blocks = run(plan, [](std::int64_t) { return 1.0; });
  ASSERT_EQ(blocks.size(), 6u);
  EXPECT_EQ(blocks[0].kind, Kind::timed);
  EXPECT_EQ(blocks[0].epoch, 1);
  EXPECT_EQ(blocks[0].steps, 7);
  EXPECT_EQ(blocks[1].kind, Kind::evaluate);
  EXPECT_EQ(blocks[1].split, "train");
  EXPECT_EQ(blocks[1].steps, 8);
  EXPECT_EQ(blocks[2].split, "test");
  EXPECT_EQ(blocks[2].epoch, 1);
  EXPECT_EQ(blocks[3].epoch, 2);
  EXPECT_EQ(blocks[3].first_step, 7);
  EXPECT_EQ(plan.done(), 14);
  EXPECT_EQ(plan.planned(), 14);
}

}  // namespace
}  // namespace assay

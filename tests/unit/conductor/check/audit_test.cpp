#include "harness/conductor/check/audit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/protocol/exam_files.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;

// `count` blocks of 10 steps that take 0.1 s each; the loss at the end of block i is i.
std::vector<Block> blocks_of(int count) {
  std::vector<Block> blocks;
  for (std::int64_t i = 0; i < count; ++i)
    blocks.push_back({.steps = 10,
                      .begin_ns = i * 100'000'000,
                      .end_ns = (i + 1) * 100'000'000,
                      .loss = static_cast<double>(i)});
  return blocks;
}

TEST(ReplayedBlocks, are_three_that_end_within_a_second) {
  std::set<std::int64_t> chosen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<ReportedLoss> reported = choose_replayed(blocks_of(40), seed);
    ASSERT_EQ(reported.size(), 3u);
    for (std::size_t i = 0; i < reported.size(); ++i) {
      if (i > 0) {
        EXPECT_LT(reported[i - 1].steps, reported[i].steps);
      }
      EXPECT_EQ(reported[i].loss, static_cast<double>(reported[i].steps) / 10 - 1);
      chosen.insert(reported[i].steps);
    }
  }
  EXPECT_THAT(chosen, ElementsAre(10, 20, 30, 40, 50, 60, 70, 80, 90, 100));
}

TEST(ReplayedBlocks, are_empty_if_the_first_block_takes_longer) {
  std::vector<Block> blocks = blocks_of(2);
  blocks[0].end_ns = blocks[0].begin_ns + 1'100'000'000;
  EXPECT_TRUE(choose_replayed(blocks, 1).empty());
  EXPECT_TRUE(choose_replayed({}, 1).empty());
}

TEST(ReplayedBlocks, have_a_loss_and_more_than_a_step) {
  std::vector<Block> blocks = blocks_of(2);
  blocks[0].steps = 1;
  EXPECT_EQ(choose_replayed(blocks, 1).size(), 1u);
  blocks[1].loss.reset();
  EXPECT_TRUE(choose_replayed(blocks, 1).empty());
}

TEST(LaterForks, OneInThreeIsChosen) {
  int chosen = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) chosen += chosen_of_later_forks(seed) ? 1 : 0;
  EXPECT_GT(chosen, 75);
  EXPECT_LT(chosen, 125);
}

TEST(ReplayedBlocks, EndBeforeTheStepsCannotBeCounted) {
  std::vector<Block> blocks = blocks_of(3);
  blocks[0].steps = 20;
  blocks[1].steps = std::numeric_limits<std::int64_t>::max();
  const std::vector<ReportedLoss> chosen = choose_replayed(blocks, 1);
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0].steps, 20);
}

TEST(ReplayedBlocks, are_written_after_the_first_step) {
  TemporaryFolder folder;
  write_audit(folder.path(), {.reported = {{20, 1.5}, {40, 1.25}}}, precision_of(PrecisionKind::fp32));
  EXPECT_THAT(read_exam_replay(folder.path() / "replay.json").steps, ElementsAre(1, 20, 40));
}

TEST(ReplayedBlocks, TellWhatTheRunReportedSoThatOneReplayMayDo) {
  TemporaryFolder folder;
  write_audit(folder.path(), {.reported = {{20, 1.5}, {40, 1.25}}}, precision_of(PrecisionKind::fp32));
  const ExamReplay replay = read_exam_replay(folder.path() / "replay.json");
  ASSERT_EQ(replay.reported.size(), 2U);
  EXPECT_TRUE(replay.agrees(std::vector{2.0, 1.5, 1.25}));
  EXPECT_TRUE(replay.agrees(std::vector{2.0, 1.5, 1.2501}));
  EXPECT_FALSE(replay.agrees(std::vector{2.0, 1.5, 1.26}));
  EXPECT_FALSE(replay.agrees(std::vector{2.0, 1.5, double(NAN)}));
  EXPECT_FALSE(replay.agrees(std::vector{2.0, 1.5})) << "a loss is missing";
}

TEST(ReplayedBlocks, OfARunThatDivergedAreAlwaysRepeated) {
  TemporaryFolder folder;
  write_audit(folder.path(), {.reported = {{20, NAN}}}, precision_of(PrecisionKind::fp32));
  EXPECT_FALSE(read_exam_replay(folder.path() / "replay.json").agrees(std::vector{2.0, 1.5}));
}

// Told is a loss after 50 steps; the first step had 2.
TensorVerdict verdict_on(double reported, const Shape& shape, const std::vector<float>& values,
                         PrecisionKind precision) {
  TemporaryFolder folder;
  HostTensor losses = HostTensor::zeros("replay/losses", {DType::f32, shape});
  std::ranges::copy(std::span(values).first(losses.as<float>().size()), losses.as<float>().begin());
  write_safetensors(folder.path() / "verify.safetensors", std::vector{losses});
  const auto verdicts = judge_audit(TensorFile::read(folder.path() / "verify.safetensors"),
                                    {.reported = {{50, reported}}}, precision_of(precision));
  EXPECT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts.front().name, "replay/50");
  return verdicts.front();
}
TensorVerdict verdict_on(double reported, float once, float again, std::int64_t count = 2,
                         PrecisionKind precision = PrecisionKind::fp32) {
  return verdict_on(reported, {2, count}, {2, once, 2, again}, precision);
}
TensorVerdict verdict_on_one(double reported, float once) {
  return verdict_on(reported, {1, 2}, {2, once}, PrecisionKind::fp32);
}

TEST(ReplayJudge, passes_equal_losses) {
  EXPECT_EQ(verdict_on(1.5, 1.5f, 1.5f).ratio, 0);
  EXPECT_LT(verdict_on(1.501, 1.5f, 1.5f).ratio, 0.2);
}

// Whoever replays once claims to agree with the run; the judge sees whether it does.
TEST(ReplayJudge, AllowsOneReplayOnlyTheShare) {
  EXPECT_EQ(verdict_on_one(1.5, 1.5f).ratio, 0);
  EXPECT_GT(verdict_on_one(1.52, 1.5f).ratio, 1.5);
}

TEST(ReplayJudge, finds_a_loss_of_other_steps) {
  EXPECT_GT(verdict_on(1.52, 1.5f, 1.5f).ratio, 1.5);
  EXPECT_LT(verdict_on(1.52, 1.5f, 1.5f, 2, PrecisionKind::bf16).ratio, 1);
}

TEST(ReplayJudge, allows_for_replays_that_are_apart) { EXPECT_LT(verdict_on(1.52, 1.5f, 1.503f).ratio, 1); }

// Losses that are below zero would allow an error below zero, and every error is larger than that.
TEST(ReplayJudge, FindsLossesThatNobodyHas) {
  TemporaryFolder folder;
  HostTensor losses = HostTensor::zeros("replay/losses", {DType::f32, {2, 2}});
  std::ranges::fill(losses.as<float>(), -1e30f);
  write_safetensors(folder.path() / "verify.safetensors", std::vector{losses});
  const auto verdicts = judge_audit(TensorFile::read(folder.path() / "verify.safetensors"),
                                    {.reported = {{50, 1.5}}}, precision_of(PrecisionKind::fp32));
  EXPECT_EQ(verdicts.front().ratio, beyond_measure);
}

TEST(ReplayJudge, finds_replays_that_are_missing_or_misshapen) {
  EXPECT_EQ(verdict_on(1.5, 1.5f, 1.5f, 1).ratio, beyond_measure);
  EXPECT_EQ(verdict_on(1.5, NAN, 1.5f).ratio, beyond_measure);
}

// Losses on batches of the own loader, then on staged ones.
double ratio_of_loader(const std::vector<float>& losses) {
  TemporaryFolder folder;
  HostTensor tensor =
      HostTensor::zeros("loader/losses", {DType::f32, {2, static_cast<std::int64_t>(losses.size() / 2)}});
  std::ranges::copy(losses, tensor.as<float>().begin());
  write_safetensors(folder.path() / "verify.safetensors", std::vector{tensor});
  const auto verdicts = judge_audit(TensorFile::read(folder.path() / "verify.safetensors"),
                                    {.own_loader = true}, precision_of(PrecisionKind::fp32));
  EXPECT_EQ(verdicts.size(), 1u);
  return verdicts.front().ratio;
}

TEST(LoaderJudge, passes_means_within_the_variation_of_batches) {
  EXPECT_LT(ratio_of_loader({0.5f, 0.6f, 0.4f, 0.55f, 0.45f, 0.6f}), 1);
}

TEST(LoaderJudge, finds_labels_that_belong_to_other_samples) {
  EXPECT_GT(ratio_of_loader({2.5f, 2.6f, 2.4f, 0.55f, 0.45f, 0.6f}), 1);
}

TEST(LoaderJudge, finds_losses_that_are_missing_or_not_finite) {
  EXPECT_EQ(ratio_of_loader({}), beyond_measure);
  EXPECT_EQ(ratio_of_loader({0.5f, NAN, 0.5f, 0.5f}), beyond_measure);
}

TEST(LoaderJudge, FindsAScatterBeyondMeasure) {
  TemporaryFolder folder;
  HostTensor tensor = HostTensor::zeros("loader/losses", {DType::f64, {2, 2}});
  std::ranges::copy(std::vector<double>{1e300, -1e300, 1, 2}, tensor.as<double>().begin());
  write_safetensors(folder.path() / "verify.safetensors", std::vector{tensor});
  const auto verdicts = judge_audit(TensorFile::read(folder.path() / "verify.safetensors"),
                                    {.own_loader = true}, precision_of(PrecisionKind::fp32));
  EXPECT_EQ(verdicts.front().ratio, beyond_measure);
}

}  // namespace
}  // namespace assay

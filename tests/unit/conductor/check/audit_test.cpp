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

std::vector<std::int64_t> steps_of(const std::vector<ReportedLoss>& losses) {
  std::vector<std::int64_t> steps;
  for (const ReportedLoss& one : losses) steps.push_back(one.steps);
  return steps;
}

TEST(ReplayableBlocks, AreEightWithTheLastThatEndsWithinASecond) {
  const std::vector<ReportedLoss> reported = replayable(blocks_of(40));
  EXPECT_THAT(steps_of(reported), ElementsAre(10, 20, 30, 50, 60, 70, 80, 100));
  for (const ReportedLoss& one : reported) EXPECT_EQ(one.loss, static_cast<double>(one.steps) / 10 - 1);
}

TEST(ReplayableBlocks, AreNoneIfTheFirstBlockTakesLonger) {
  std::vector<Block> blocks = blocks_of(2);
  blocks[0].end_ns = blocks[0].begin_ns + 1'100'000'000;
  EXPECT_TRUE(replayable(blocks).empty());
  EXPECT_TRUE(replayable({}).empty());
}

TEST(ReplayableBlocks, HaveALossAndMoreThanAStep) {
  std::vector<Block> blocks = blocks_of(2);
  blocks[0].steps = 1;
  EXPECT_EQ(replayable(blocks).size(), 1u);
  blocks[1].loss.reset();
  EXPECT_TRUE(replayable(blocks).empty());
}

TEST(ReplayableBlocks, EndBeforeTooManySteps) {
  std::vector<Block> blocks = blocks_of(3);
  blocks[0].steps = 20;
  for (const std::int64_t steps : {std::int64_t{1000}, std::numeric_limits<std::int64_t>::max()}) {
    blocks[1].steps = steps;
    EXPECT_THAT(steps_of(replayable(blocks)), ElementsAre(20));
  }
}

TEST(LaterForks, OneInThreeIsChosen) {
  int chosen = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) chosen += chosen_of_later_forks(seed) ? 1 : 0;
  EXPECT_GT(chosen, 75);
  EXPECT_LT(chosen, 125);
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(AllowedOfReplay, IsAShareOfTheLargerLoss) {
  const Precision fp32 = precision_of(PrecisionKind::fp32), bf16 = precision_of(PrecisionKind::bf16);
  EXPECT_DOUBLE_EQ(allowed_of_replay(2, 1, 0, fp32).value(), 2e-4);
  EXPECT_DOUBLE_EQ(allowed_of_replay(1, 3, 0, fp32).value(), 3e-4);
  EXPECT_DOUBLE_EQ(allowed_of_replay(2, 1, 0, bf16).value(), 0.02);
}

TEST(AllowedOfReplay, GrowsWithWhatARoundingChanges) {
  const Precision fp32 = precision_of(PrecisionKind::fp32);
  EXPECT_DOUBLE_EQ(allowed_of_replay(2, 1, 3e-3, fp32).value(), 0.03);
}

TEST(AllowedOfReplay, IsAbsentWhereRoundingDecides) {
  const Precision fp32 = precision_of(PrecisionKind::fp32), bf16 = precision_of(PrecisionKind::bf16);
  EXPECT_FALSE(allowed_of_replay(2, 1, 0.012, fp32));
  EXPECT_TRUE(allowed_of_replay(2, 1, 0.012, bf16));
  EXPECT_FALSE(allowed_of_replay(2, nan, 0, fp32));
  EXPECT_FALSE(allowed_of_replay(-2, -1, 0, fp32)) << "nobody has such a loss";
}

TensorVerdict verdict_on(double reported, double computed, double allowed) {
  const auto verdicts = judge_audit(TensorFile(), {.replayed = {{"replay/50", reported, computed, allowed}}});
  EXPECT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts.front().name, "replay/50");
  return verdicts.front();
}

TEST(ReplayJudge, ComparesWhatWasReportedWithWhatAnotherBackendComputed) {
  EXPECT_EQ(verdict_on(1.5, 1.5, 1e-3).ratio, 0);
  EXPECT_LT(verdict_on(1.5005, 1.5, 1e-3).ratio, 1);
  EXPECT_GT(verdict_on(1.502, 1.5, 1e-3).ratio, 1.5);
  EXPECT_EQ(verdict_on(nan, 1.5, 1e-3).ratio, beyond_measure);
  EXPECT_EQ(verdict_on(1.5, nan, 1e-3).ratio, beyond_measure);
}

TEST(ReplayJudge, TakesTheLossOfTheNextStepFromTheWorkersAnswers) {
  TemporaryFolder folder;
  HostTensor loss = HostTensor::zeros("continuation/loss", {DType::f32, {}});
  loss.as<float>()[0] = 0.5f;
  write_safetensors(folder.path() / "verify.safetensors", std::vector{loss});
  const TensorFile worker = TensorFile::read(folder.path() / "verify.safetensors");
  const RunAudit audit{.next_loss = Replayed{"continuation/loss", 0, 0.501, 2e-3}};
  EXPECT_NEAR(judge_audit(worker, audit).front().ratio, 0.5, 1e-6);
  EXPECT_EQ(judge_audit(TensorFile(), audit).front().ratio, beyond_measure) << "it is missing";
}

// Losses on batches of the own loader, then on staged ones.
double ratio_of_loader(const std::vector<float>& losses) {
  TemporaryFolder folder;
  HostTensor tensor =
      HostTensor::zeros("loader/losses", {DType::f32, {2, static_cast<std::int64_t>(losses.size() / 2)}});
  std::ranges::copy(losses, tensor.as<float>().begin());
  write_safetensors(folder.path() / "verify.safetensors", std::vector{tensor});
  const auto verdicts =
      judge_audit(TensorFile::read(folder.path() / "verify.safetensors"), {.own_loader = true});
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
  const auto verdicts =
      judge_audit(TensorFile::read(folder.path() / "verify.safetensors"), {.own_loader = true});
  EXPECT_EQ(verdicts.front().ratio, beyond_measure);
}

}  // namespace
}  // namespace assay

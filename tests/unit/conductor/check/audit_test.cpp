#include "harness/conductor/check/audit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/protocol/exam_files.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::Lt;

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

TEST(Excerpt, IsOfLargeStates) {
  EXPECT_FALSE(excerpt_of(std::int64_t{64} << 20, 1));
  const auto chosen = excerpt_of((std::int64_t{64} << 20) + 4, 1),
             other = excerpt_of(std::int64_t{1} << 28, 2);
  ASSERT_TRUE(chosen && other);
  EXPECT_EQ(chosen->elements, 65'536);
  EXPECT_NE(chosen->at, other->at) << "the worker cannot know it";
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

TEST(AffordableSteps, AreTheLastThatWereAskedForAndFit) {
  const std::int64_t asked[] = {10, 60, 110};
  EXPECT_EQ(affordable_steps(asked, max_replay_seconds / 500), 110);
  EXPECT_EQ(affordable_steps(asked, max_replay_seconds / 100), 60)
      << "not the 100 that fit: nobody asked for their loss";
  EXPECT_EQ(affordable_steps(asked, max_replay_seconds / 9.5), 0);
  EXPECT_EQ(affordable_steps(asked, INFINITY), 0);
  EXPECT_EQ(affordable_steps({}, 1e-3), 0);
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
  EXPECT_DOUBLE_EQ(allowed_of_replay(2, 1, 0.033, fp32).value(), 0.1) << "but not without end";
}

TEST(AllowedOfReplay, IsAbsentWhereRoundingDecides) {
  const Precision fp32 = precision_of(PrecisionKind::fp32), bf16 = precision_of(PrecisionKind::bf16);
  EXPECT_FALSE(allowed_of_replay(2, 1, 0.034, fp32));
  EXPECT_TRUE(allowed_of_replay(2, 1, 0.034, bf16));
  EXPECT_FALSE(allowed_of_replay(2, nan, 0, fp32));
  EXPECT_FALSE(allowed_of_replay(-2, -1, 0, fp32)) << "nobody has such a loss";
}

TensorVerdict verdict_on(double reported, double computed, double allowed) {
  const auto verdicts = judge_audit(TensorFile(), {.replayed = {{"replay/50", reported, computed, allowed}}},
                                    precision_of(PrecisionKind::fp32));
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
  const Precision fp32 = precision_of(PrecisionKind::fp32);
  EXPECT_NEAR(judge_audit(worker, audit, fp32).front().ratio, 0.5, 1e-6);
  EXPECT_EQ(judge_audit(TensorFile(), audit, fp32).front().ratio, beyond_measure) << "it is missing";
}

constexpr std::int64_t loader_batches = 16, loader_rows = 4, left_over = 2;

using Pass = std::vector<float>;

Pass shuffled_pass(std::uint64_t seed) {
  Pass numbers(loader_batches * loader_rows + left_over);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  Philox(seed, "pass").shuffle(std::span(numbers));
  numbers.resize(loader_batches * loader_rows);
  return numbers;
}

HostTensor losses_of_loader(const std::vector<float>& loaded, const std::vector<float>& staged) {
  HostTensor losses = HostTensor::zeros("loader/losses", {DType::f32, {2, std::ssize(loaded)}});
  std::ranges::copy(loaded, losses.as<float>().begin());
  std::ranges::copy(staged, losses.as<float>().begin() + std::ssize(loaded));
  return losses;
}

// The ratios of loader/samples, loader/order, loader/passes and loader/losses.
std::vector<double> ratios_of_loader(const Pass& first, const Pass& second) {
  TemporaryFolder folder;
  HostTensor tensor = HostTensor::zeros("loader/samples", {DType::f32, {2, loader_batches, loader_rows}});
  std::ranges::copy(first, tensor.as<float>().begin());
  std::ranges::copy(second, tensor.as<float>().begin() + loader_batches * loader_rows);
  write_safetensors(folder.path() / "verify.safetensors",
                    std::vector{tensor, losses_of_loader({2, 2, 1}, {2, 2, 1})});
  std::vector<double> ratios;
  for (const TensorVerdict& verdict : judge_audit(TensorFile::read(folder.path() / "verify.safetensors"),
                                                  {.own_loader = true}, precision_of(PrecisionKind::fp32)))
    ratios.push_back(verdict.ratio);
  return ratios;
}

TEST(LoaderJudge, PassesShuffledPasses) {
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    EXPECT_THAT(ratios_of_loader(shuffled_pass(2 * seed), shuffled_pass(2 * seed + 1)), Each(Lt(0.7)))
        << seed;
}

TEST(LoaderJudge, FindsRowsThatAreNoSamplesOrComeTwice) {
  for (const float wrong : {-1.0F, -2.0F, 66.0F, 0.5F, NAN, shuffled_pass(1)[7]}) {
    Pass pass = shuffled_pass(1);
    pass[3] = wrong;
    EXPECT_GT(ratios_of_loader(pass, shuffled_pass(2))[0], 1.5) << wrong;
    EXPECT_GT(ratios_of_loader(shuffled_pass(2), pass)[0], 1.5) << wrong;
  }
}

TEST(LoaderJudge, FindsPassesWithoutAShuffle) {
  Pass plain(loader_batches * loader_rows);
  std::iota(plain.begin(), plain.end(), 0.0F);
  EXPECT_GT(ratios_of_loader(plain, shuffled_pass(2))[1], 1.5);
  EXPECT_GT(ratios_of_loader(shuffled_pass(2), plain)[1], 1.5);
  EXPECT_GT(ratios_of_loader(shuffled_pass(2), shuffled_pass(2))[2], 1.5) << "one order for ever";
}

TEST(LoaderJudge, FindsStepsThatDoNotTrainOnTheBatchThatWasTaken) {
  const auto ratios = [](std::vector<HostTensor> answers, bool draws_masks = false,
                         PrecisionKind precision = PrecisionKind::fp32) {
    TemporaryFolder folder;
    answers.push_back(HostTensor::zeros("loader/samples", {DType::f32, {2, loader_batches, loader_rows}}));
    write_safetensors(folder.path() / "verify.safetensors", answers);
    std::vector<double> found;
    for (const TensorVerdict& verdict :
         judge_audit(TensorFile::read(folder.path() / "verify.safetensors"),
                     {.own_loader = true, .draws_masks = draws_masks}, precision_of(precision)))
      if (verdict.name == "loader/losses") found.push_back(verdict.ratio);
    return found;
  };
  EXPECT_THAT(ratios({losses_of_loader({2.3F, 2, 1.0005F}, {2.3F, 2, 1})}), ElementsAre(Lt(1)));
  EXPECT_THAT(ratios({losses_of_loader({2.3F, 2.003F, 1}, {2.3F, 2, 1})}), ElementsAre(Gt(2)));
  EXPECT_THAT(ratios({losses_of_loader({2.3F, 2.003F, 1}, {2.3F, 2, 1})}, false, PrecisionKind::bf16),
              ElementsAre(Lt(1)));
  EXPECT_THAT(ratios({losses_of_loader({2.3F, NAN, 1}, {2.3F, 2, 1})}), ElementsAre(beyond_measure));
  EXPECT_THAT(ratios({losses_of_loader({2.3F, NAN, 1}, {2.3F, INFINITY, 2})}), ElementsAre(Lt(1)))
      << "both were led to infinity";
  EXPECT_THAT(ratios({losses_of_loader({NAN, 2, 1}, {NAN, 2, 1})}), ElementsAre(beyond_measure));
  EXPECT_THAT(ratios({losses_of_loader({2.3F, 2}, {2.3F, 2})}), ElementsAre(beyond_measure)) << "too few";
  EXPECT_THAT(ratios({}), ElementsAre(beyond_measure)) << "missing";
  EXPECT_THAT(ratios({}, true), IsEmpty()) << "masks may be unlike each other";
}

constexpr std::int64_t fit_batches = 12;

std::vector<float> losses_in_order() {
  std::vector<float> losses(fit_batches);
  std::iota(losses.begin(), losses.end(), 10.0F);
  return losses;
}

std::vector<float> shuffled_losses(std::uint64_t seed) {
  std::vector<float> losses = losses_in_order();
  Philox(seed, "fit").shuffle(std::span(losses));
  return losses;
}

// Of a framework's own loop: the ratios by name.
std::map<std::string, double> ratios_of_fit(const std::vector<float>& first, const std::vector<float>& second,
                                            const std::vector<float>& trained = {1, 1},
                                            PrecisionKind precision = PrecisionKind::fp32) {
  TemporaryFolder folder;
  std::vector<float> fit = losses_in_order();
  fit.insert(fit.end(), first.begin(), first.end());
  fit.insert(fit.end(), second.begin(), second.end());
  std::vector<HostTensor> answers = {
      HostTensor::zeros("loader/samples", {DType::f32, {2, loader_batches, loader_rows}})};
  const auto add = [&](const char* name, const Shape& shape, const std::vector<float>& values) {
    answers.push_back(HostTensor::zeros(name, {DType::f32, shape}));
    std::ranges::copy(values, answers.back().as<float>().begin());
  };
  add("loader/fit", {std::ssize(fit) / fit_batches, fit_batches}, fit);
  if (!trained.empty()) add("loader/trained", {std::ssize(trained)}, trained);
  write_safetensors(folder.path() / "verify.safetensors", answers);
  std::map<std::string, double> ratios;
  for (const TensorVerdict& verdict : judge_audit(TensorFile::read(folder.path() / "verify.safetensors"),
                                                  {.own_loader = true}, precision_of(precision)))
    ratios[verdict.name] = verdict.ratio;
  return ratios;
}

TEST(LoaderJudge, FindsALoopThatTrainsOnOtherBatches) {
  auto ratios = ratios_of_fit(shuffled_losses(1), shuffled_losses(2));
  for (const char* name : {"loader/fit", "loader/fit_order", "loader/fit_passes", "loader/trained"}) {
    ASSERT_TRUE(ratios.contains(name)) << name;
    EXPECT_LT(ratios[name], 0.9) << name;
  }
  std::vector<float> other = shuffled_losses(2);
  other[3] += 1;
  EXPECT_GT(ratios_of_fit(shuffled_losses(1), other)["loader/fit"], 10);
  EXPECT_LT(ratios_of_fit(shuffled_losses(1), other, {1, 1}, PrecisionKind::bf16)["loader/fit"], 1);
  other[3] = NAN;
  EXPECT_EQ(ratios_of_fit(shuffled_losses(1), other)["loader/fit"], beyond_measure);
  EXPECT_EQ(ratios_of_fit(shuffled_losses(1), {})["loader/fit"], beyond_measure);
}

TEST(LoaderJudge, FindsALoopThatDoesNotShuffle) {
  EXPECT_GT(ratios_of_fit(losses_in_order(), shuffled_losses(1))["loader/fit_order"], 1.5);
  EXPECT_GT(ratios_of_fit(shuffled_losses(1), losses_in_order())["loader/fit_order"], 1.5);
  EXPECT_GT(ratios_of_fit(shuffled_losses(1), shuffled_losses(1))["loader/fit_passes"], 1.5);
}

TEST(LoaderJudge, FindsALoopWithOtherSteps) {
  const auto ratio = [](const std::vector<float>& trained, PrecisionKind precision = PrecisionKind::fp32) {
    return ratios_of_fit(shuffled_losses(1), shuffled_losses(2), trained, precision)["loader/trained"];
  };
  EXPECT_LT(ratio({1.001F, 1}), 1);
  EXPECT_GT(ratio({1.1F, 1}), 5);
  EXPECT_LT(ratio({1.1F, 1}, PrecisionKind::bf16), 1);
  EXPECT_EQ(ratio({NAN, 1}), beyond_measure);
  EXPECT_EQ(ratio({1}), beyond_measure);
  EXPECT_EQ(ratio({}), beyond_measure) << "missing";
}

TEST(LoaderJudge, FindsAnAnswerThatIsMissing) {
  TemporaryFolder folder;
  for (const Shape& shape : {Shape{2, 4, 4}, Shape{1, 16, 4}, Shape{2, 64}}) {
    write_safetensors(folder.path() / "verify.safetensors",
                      std::vector{HostTensor::zeros("loader/samples", {DType::f32, shape})});
    const auto verdicts = judge_audit(TensorFile::read(folder.path() / "verify.safetensors"),
                                      {.own_loader = true}, precision_of(PrecisionKind::fp32));
    EXPECT_EQ(verdicts.front().ratio, beyond_measure);
  }
}

}  // namespace
}  // namespace assay

#include "harness/conductor/check/self_judge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/graph/builder.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

// One dropout of a quarter.
Program dropping() {
  Graph graph("dropping");
  GraphBuilder b(graph);
  const ValueId x = b.dropout(b.input("inputs", {100, 100}), 0.25, "drop");
  graph.add_output("logits", x);
  return {graph, graph, OptimizerSpec{}};
}

// The masks of two steps.
class Draws {
 public:
  Draws() { fill(0.75, 0.75); }
  void fill(double kept_first, double kept_second) {
    Philox random(1, "masks");
    for (std::size_t i = 0; i < 2 * elements; ++i)
      values()[i] = random.uniform_double() < (i < elements ? kept_first : kept_second);
  }
  std::span<std::uint8_t> values() { return masks_.as<std::uint8_t>(); }
  std::uint8_t& first(std::size_t row, std::size_t column) { return values()[row * 100 + column]; }
  TensorVerdict verdict(std::size_t ranks = 1) const {
    const TemporaryFolder folder;
    write_safetensors(folder / "verify.safetensors", std::vector{masks_});
    const auto verdicts =
        judge_draws(TensorFile::read(folder / "verify.safetensors"), dropping(), Task::train, ranks);
    EXPECT_EQ(verdicts.size(), 1u);
    EXPECT_EQ(verdicts.front().name, "draws/drop.mask");
    return verdicts.front();
  }
  static constexpr std::size_t elements = 10'000;

 private:
  HostTensor masks_ = HostTensor::zeros("draws/drop.mask", {DType::u8, {2, 100, 100}});
};

TEST(DrawJudge, PassesHonestDraws) {
  EXPECT_LT(Draws().verdict().ratio, 0.7);
  EXPECT_GT(Draws().verdict().ratio, 0);
}

TEST(DrawJudge, FindsAnotherRateInEitherDraw) {
  Draws draws;
  draws.fill(0.7, 0.75);
  EXPECT_GT(draws.verdict().ratio, 1);
  draws.fill(0.75, 0.8);
  EXPECT_GT(draws.verdict().ratio, 1);
  draws.fill(1, 1);
  EXPECT_GT(draws.verdict().ratio, 9) << "nothing is dropped";
}

TEST(DrawJudge, FindsAMaskThatComesAgain) {
  Draws draws;
  std::ranges::copy(draws.values().first(Draws::elements), draws.values().begin() + Draws::elements);
  EXPECT_GT(draws.verdict().ratio, 10);
}

TEST(DrawJudge, FindsAMaskThatIsUsedForSeveralElements) {
  Draws rows, halves, columns, twice;
  for (std::size_t row = 0; row < 100; ++row)
    for (std::size_t column = 0; column < 100; ++column) {
      rows.first(row, column) = rows.first(0, column);
      halves.first(row, column) = halves.first(row % 50, column);
      columns.first(row, column) = columns.first(row, column / 2 * 2);
      twice.first(row, column) = twice.first(row, column % 50);
    }
  EXPECT_GT(rows.verdict().ratio, 5);
  EXPECT_GT(halves.verdict().ratio, 5);
  EXPECT_GT(columns.verdict().ratio, 5);
  EXPECT_GT(twice.verdict().ratio, 5);
}

TEST(DrawJudge, FindsTwoRanksThatDrawTheSameMask) {
  Draws draws;
  EXPECT_LT(draws.verdict(5).ratio, 0.9);
  std::ranges::copy(draws.values().subspan(2000, 2000), draws.values().begin() + 8000);
  EXPECT_LT(draws.verdict().ratio, 1) << "the rows 20 to 39 and 80 to 99 are not half of the rows apart";
  EXPECT_GT(draws.verdict(5).ratio, 5) << "they are those of ranks 1 and 4";
}

TEST(DrawJudge, LeavesOutWhatIsUnknown) {
  Draws draws;
  for (std::size_t i = 0; i < draws.values().size(); i += 2) draws.values()[i] = 255;
  EXPECT_LT(draws.verdict().ratio, 0.7);
  std::ranges::fill(draws.values(), std::uint8_t{255});
  EXPECT_EQ(draws.verdict().ratio, beyond_measure) << "it shows nothing";
}

TEST(DrawJudge, RefusesAProgramThatShowsNoMask) {
  const TemporaryFolder folder;
  write_safetensors(folder / "verify.safetensors",
                    std::vector{HostTensor::zeros("draws/drop.mask", {DType::u8, {2, 100}})});
  EXPECT_EQ(
      judge_draws(TensorFile::read(folder / "verify.safetensors"), dropping(), Task::train).front().ratio,
      beyond_measure);
}

using Runs = std::map<std::string, std::vector<float>>;

// A parameter "w" that the steps moved by 1, by the values after each run.
Runs moved_by_one(std::vector<float> unwaited) {
  return {{"start", {1, 1}}, {"unwaited", std::move(unwaited)}, {"waited", {2, 1}}};
}

// One parameter of so many elements, and no moments.
Program of_one_parameter(std::int64_t elements) {
  Graph graph("continued");
  GraphBuilder b(graph);
  b.parameter("w", {elements}, "zeros");
  OptimizerSpec sgd;
  sgd.kind = "sgd";
  sgd.momentum = 0;
  return {graph, graph, sgd};
}

TensorFile handed_over(const Runs& runs) {
  const TemporaryFolder folder;
  std::vector<HostTensor> tensors;
  for (const auto& [run, values] : runs) {
    tensors.push_back(HostTensor::zeros("continuation/" + run + "/w", {DType::f32, {std::ssize(values)}}));
    std::ranges::copy(values, tensors.back().as<float>().begin());
  }
  write_safetensors(folder / "verify.safetensors", tensors);
  return TensorFile::read(folder / "verify.safetensors");
}

double continuation_ratio(const Runs& runs, const std::set<std::string>& noisy = {},
                          bool deterministic = false) {
  const auto verdicts = judge_continuation(handed_over(runs), of_one_parameter(2),
                                           precision_of(PrecisionKind::fp32), noisy, deterministic);
  EXPECT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts.front().name, "continuation/w");
  return verdicts.front().ratio;
}

TEST(ContinuationJudge, ComparesTheRunsWithAndWithoutPauses) {
  EXPECT_EQ(continuation_ratio(moved_by_one({2, 1})), 0);
  EXPECT_LT(continuation_ratio(moved_by_one({2.005f, 1})), 1);
  EXPECT_GT(continuation_ratio(moved_by_one({2.02f, 1})), 1);
  EXPECT_GT(continuation_ratio(moved_by_one({1, 1})), 90) << "no step was done";
}

TEST(ContinuationJudge, RefusesStatesThatNobodyHas) {
  EXPECT_EQ(continuation_ratio(moved_by_one({NAN, 1})), beyond_measure);
  EXPECT_EQ(continuation_ratio(moved_by_one({INFINITY, 1})), beyond_measure);
  EXPECT_EQ(continuation_ratio(moved_by_one({2, 1, 1})), beyond_measure);
  for (const char* run : {"start", "unwaited", "waited"}) {
    Runs runs = moved_by_one({2, 1});
    runs.erase(run);
    EXPECT_EQ(continuation_ratio(runs), beyond_measure) << run;
  }
  Runs runs = moved_by_one({2, 1});
  runs["near_1"] = {NAN, 1};
  EXPECT_EQ(continuation_ratio(runs), beyond_measure);
}

TEST(ContinuationJudge, ProgramsThatRoundDifferentlyEachTimeMayDifferAsTheirOwnRunsDo) {
  const auto ratio = [](float unwaited, float near) {
    Runs runs = moved_by_one({2 + unwaited, 1});
    runs["near_1"] = {2, 1};
    runs["near_2"] = {2 + near, 1};
    return continuation_ratio(runs);
  };
  EXPECT_GT(ratio(0.1f, 0), 1);
  EXPECT_LT(ratio(0.1f, 0.02f), 1);
  EXPECT_GT(ratio(0.2f, 0.02f), 1);
  EXPECT_GT(ratio(2, 2), 1) << "that is more than all that the steps changed";
  const Runs noise = {{"start", {1, 1}}, {"unwaited", {3.1f, 1}}, {"waited", {1.1f, 1}}, {"near_1", {3, 1}}};
  EXPECT_GT(continuation_ratio(noise), 1);
  EXPECT_LT(continuation_ratio(noise, {"w"}), 1);
}

TEST(ContinuationJudge, ADeterministicProgramHasTheSameBits) {
  EXPECT_EQ(continuation_ratio(moved_by_one({2, 1}), {}, true), 0);
  const float next = std::nextafter(2.0f, 3.0f);
  EXPECT_EQ(continuation_ratio(moved_by_one({next, 1}), {}, true), beyond_measure);
  EXPECT_EQ(continuation_ratio(moved_by_one({next, 1}), {"w"}, true), beyond_measure);
}

TEST(ContinuationJudge, a_parameter_that_only_rounding_moves_may_end_elsewhere_after_each_run) {
  const auto ratio = [](float apart, const std::set<std::string>& noisy) {
    return continuation_ratio(
        {{"start", {1, 0}}, {"unwaited", {1 + 1e-6f + apart, 0}}, {"waited", {1 + 1e-6f, 0}}}, noisy);
  };
  EXPECT_GT(ratio(2e-6f, {}), 1);
  EXPECT_LT(ratio(2e-6f, {"w"}), 1);
  EXPECT_GT(ratio(1e-5f, {"w"}), 1);
}

TEST(ContinuationJudge, ReadsTheElementsThatItChose) {
  const ExamExcerpt chosen{.elements = 2, .at = 0.5};
  const auto ratio = [&](const Runs& runs, std::int64_t elements) {
    return judge_continuation(handed_over(runs), of_one_parameter(elements),
                              precision_of(PrecisionKind::fp32), {}, false, chosen)
        .front()
        .ratio;
  };
  EXPECT_EQ(ratio(moved_by_one({2, 1}), 100), 0);
  EXPECT_GT(ratio(moved_by_one({1, 1}), 100), 1);
  EXPECT_EQ(ratio(moved_by_one({2, 1}), 1), beyond_measure) << "it has only one";
}

TensorFile state_of(const std::vector<float>& values) {
  const TemporaryFolder folder;
  HostTensor tensor = HostTensor::zeros("w", {DType::f32, {std::ssize(values)}});
  std::ranges::copy(values, tensor.as<float>().begin());
  write_safetensors(folder / "state.safetensors", std::vector{tensor});
  return TensorFile::read(folder / "state.safetensors");
}

// Another backend's step moves "w" from (1, 1) to (2, 1), and has this loss.
std::vector<TensorVerdict> judged_step(const std::vector<float>& found, double loss = 1,
                                       PrecisionKind precision = PrecisionKind::fp32,
                                       const std::set<std::string>& noisy = {}) {
  return judge_next_state(handed_over({{"start", found}}), of_one_parameter(2), precision_of(precision),
                          noisy, {state_of({1, 1}), state_of({2, 1}), loss}, std::nullopt);
}

double step_ratio(const std::vector<float>& found, PrecisionKind precision = PrecisionKind::fp32) {
  const auto verdicts = judged_step(found, 1, precision);
  EXPECT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts.front().name, "continuation/step/w");
  return verdicts.front().ratio;
}

TEST(NextStateJudge, ComparesTheFirstStepWithThatOfAnotherBackend) {
  EXPECT_EQ(step_ratio({2, 1}), 0);
  EXPECT_LT(step_ratio({2.19f, 1}), 1);
  EXPECT_GT(step_ratio({2.21f, 1}), 1);
  EXPECT_GT(step_ratio({1, 1}), 4) << "no step was done";
  EXPECT_LT(step_ratio({2.29f, 1}, PrecisionKind::bf16), 1);
  EXPECT_GT(step_ratio({1, 1}, PrecisionKind::bf16), 3);
  EXPECT_EQ(step_ratio({NAN, 1}), beyond_measure);
  EXPECT_EQ(step_ratio({2, 1, 1}), beyond_measure);
}

// Other steps move "w" from (1 + n / 1000, 1) by (1, 0), and with number 3 by (2, 0): there a unit is at the other side of
// its kink.
TEST(NextStateJudge, TakesTheNearestOfStepsFromParametersThatAreOff) {
  int asked = 0;
  float other_change = 2;
  const NudgedStep nudged = [&](int number) {
    ++asked;
    const float begin = 1 + static_cast<float>(number) / 1000, change = number == 3 ? other_change : 1;
    return SteppedState{state_of({begin, 1}), state_of({begin + change, 1}), 1};
  };
  const auto ratio = [&](const std::vector<float>& found, const NudgedStep& other,
                         PrecisionKind precision = PrecisionKind::fp32) {
    asked = 0;
    return judge_next_state(handed_over({{"start", found}}), of_one_parameter(2), precision_of(precision), {},
                            {state_of({1, 1}), state_of({2, 1}), 1}, std::nullopt, other)
        .front()
        .ratio;
  };
  EXPECT_LT(ratio({2.1F, 1}, nudged), 1);
  EXPECT_EQ(asked, 0) << "the first step is near enough";
  EXPECT_LT(ratio({3, 1}, nudged), 0.01);
  EXPECT_EQ(asked, 3);
  EXPECT_GT(ratio({1, 1}, nudged), 4) << "no step was done";
  EXPECT_EQ(asked, max_nudged_replays);
  EXPECT_GT(ratio({2.5F, 1}, nudged), 1) << "it did neither";
  other_change = 1.3F;
  EXPECT_GT(ratio({1.55F, 1}, nudged), 1);
  EXPECT_LT(ratio({1.55F, 1}, nudged, PrecisionKind::bf16), 1) << "the steps are apart, too";
  EXPECT_GT(ratio({1.4F, 1}, nudged, PrecisionKind::bf16), 1) << "more than half of the change";
  for (const float change : {1.3F, 4.0F}) {
    other_change = change;
    EXPECT_GT(ratio({1, 1}, nudged, PrecisionKind::bf16), 1) << "no step was done";
    EXPECT_GT(ratio({0, 1}, nudged, PrecisionKind::bf16), 1) << "the other way";
  }
  other_change = INFINITY;
  EXPECT_GT(ratio({1.55F, 1}, nudged, PrecisionKind::bf16), 1);
  other_change = 1;
  EXPECT_GT(ratio({1.55F, 1}, nudged, PrecisionKind::bf16), 1) << "the steps are alike";
  EXPECT_EQ(ratio({NAN, 1}, nudged), beyond_measure);
  EXPECT_GT(ratio({3, 1}, [](int) { return std::optional<SteppedState>(); }), 4);
}

TEST(NextStateJudge, JudgesNothingWhereTheGradientIsRounding) {
  EXPECT_EQ(judged_step({1, 1}, 1e-3).size(), 1u);
  for (const double loss : {1e-6, 0.0, -1e-9}) EXPECT_TRUE(judged_step({1, 1}, loss).empty()) << loss;
  EXPECT_TRUE(judged_step({1, 1}, 0.04, PrecisionKind::bf16).empty());
  EXPECT_TRUE(judged_step({1, 1}, 1, PrecisionKind::fp32, {"w"}).empty()) << "only rounding moves it";
}

TEST(NextStateJudge, ReadsTheElementsThatItChose) {
  const ExamExcerpt last{.elements = 1, .at = 1};
  const auto ratio = [&](float found) {
    return judge_next_state(handed_over({{"start", {found}}}), of_one_parameter(2),
                            precision_of(PrecisionKind::fp32), {}, {state_of({1, 1}), state_of({2, 3}), 1},
                            last)
        .front()
        .ratio;
  };
  EXPECT_EQ(ratio(3), 0);
  EXPECT_GT(ratio(1), 1);
}

TEST(ContinuationJudge, NamesTheFirstParameterThatIsNotFinite) {
  for (const float value : {NAN, INFINITY}) {
    Runs runs = moved_by_one({2, 1});
    runs["waited"] = {2, value};
    EXPECT_EQ(first_not_finite(handed_over(runs), of_one_parameter(2)), "w");
  }
  EXPECT_EQ(first_not_finite(handed_over(moved_by_one({2, 3e38F})), of_one_parameter(2)), "");
}

TEST(ContinuationJudge, BlamesTheRunOnlyIfTheExamWasPassed) {
  Equivalence verified;
  const auto add = [&](const char* name, double ratio) {
    verified.tensors.push_back({name, 0, 0, 0, 0, ratio});
  };
  add("gradient/w", 1);
  add("continuation/w", beyond_measure);
  add("replay/7", beyond_measure);
  EXPECT_TRUE(differs_only_after_run(verified));
  add("loss", 1.1);
  EXPECT_FALSE(differs_only_after_run(verified));
}

}  // namespace
}  // namespace assay

#include "harness/conductor/compare/time_decision.hpp"

#include <cmath>
#include <random>
#include <vector>

#include <gmock/gmock.h>

namespace assay {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Log-normal forks around `median` seconds with that spread of ln(time).
std::vector<double> forks(int count, double median, double spread, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(median * std::exp(normal(engine)));
  return values;
}

TEST(TimeDecision, calls_a_change_past_the_threshold_by_its_direction) {
  const auto base = forks(12, 1e-3, 0.01, 1);
  EXPECT_EQ(decide_rounds(base, forks(12, 1.1e-3, 0.01, 2), {}).verdict, Verdict::slower);
  EXPECT_EQ(decide_rounds(base, forks(12, 0.9e-3, 0.01, 3), {}).verdict, Verdict::faster);
  EXPECT_EQ(decide_rounds(base, forks(12, 1.0e-3, 0.01, 4), {}).verdict, Verdict::same);
  EXPECT_NEAR(*decide_rounds(base, forks(12, 1.1e-3, 0.01, 2), {}).ratio, 1.1, 0.02);
}

TEST(TimeDecision, turns_round_where_more_is_better) {
  DecisionSettings settings;
  settings.higher_is_better = true;
  const auto base = forks(12, 1000, 0.01, 1), fewer = forks(12, 880, 0.01, 2);
  const CellVerdict cell = decide_rounds(base, fewer, settings);
  EXPECT_EQ(cell.verdict, Verdict::slower);
  EXPECT_GT(*cell.ratio, 1.05);
}

TEST(TimeDecision, a_certain_change_below_the_threshold_is_the_same) {
  const CellVerdict cell = decide_rounds(forks(12, 1e-3, 0.002, 1), forks(12, 1.02e-3, 0.002, 2), {});
  EXPECT_GT(*cell.lower, 1);
  EXPECT_EQ(cell.verdict, Verdict::same);
}

TEST(TimeDecision, a_noisy_change_is_inconclusive_with_a_number_of_rounds) {
  const CellVerdict cell = decide_rounds(forks(6, 1e-3, 0.08, 1), forks(6, 1.06e-3, 0.08, 2), {});
  EXPECT_EQ(cell.verdict, Verdict::inconclusive);
  ASSERT_TRUE(cell.forks_needed);
  EXPECT_GT(*cell.forks_needed, 6);
  EXPECT_THAT(cell.reason, HasSubstr("rounds"));
}

TEST(TimeDecision, too_few_rounds_never_decide_however_large_the_change) {
  const CellVerdict cell = decide_rounds(forks(4, 1e-3, 0.001, 1), forks(4, 2e-3, 0.001, 2), {});
  EXPECT_EQ(cell.verdict, Verdict::inconclusive);
  EXPECT_NEAR(*cell.ratio, 2, 0.01);
  EXPECT_EQ(cell.forks_needed, 6);
  EXPECT_THAT(cell.reason, HasSubstr("at most 87.5 %"));
}

TEST(TimeDecision, NeedsTheSameRoundsOfBothSides) {
  EXPECT_EQ(decide_rounds({}, {}, {}).verdict, Verdict::inconclusive);
  EXPECT_EQ(decide_rounds(forks(5, 1, 0.01, 1), forks(6, 1, 0.01, 1), {}).verdict, Verdict::inconclusive);
  EXPECT_EQ(min_rounds_for(0.95), 6);
}

TEST(Scale, IsLogarithmicOnlyIfAllValuesAreAboveZero) {
  const std::vector<double> times{1, 2}, counts{0, 500, 500}, none{0, 0}, below{-2, -1};
  const Scale ratio(times, times, false), gain(times, times, true), difference(none, counts, false),
      nothing(none, none, false), negative(below, times, false);
  EXPECT_TRUE(ratio.is_ratio());
  EXPECT_THAT(ratio(times), ElementsAre(0, DoubleNear(std::log(2), 1e-15)));
  EXPECT_THAT(gain(times), ElementsAre(0, DoubleNear(-std::log(2), 1e-15)));
  EXPECT_FALSE(difference.is_ratio());
  EXPECT_THAT(difference(counts), ElementsAre(0, 1, 1));
  EXPECT_THAT(nothing(none), ElementsAre(0, 0));
  EXPECT_THAT(negative(below), ElementsAre(DoubleNear(-4.0 / 3, 1e-15), DoubleNear(-2.0 / 3, 1e-15)));
  CellVerdict cell;
  difference.describe(cell, 1, 0.9, 1.1);
  EXPECT_FALSE(cell.ratio);
  EXPECT_THAT(cell.reason, HasSubstr("500 [450, 550]"));
}

}  // namespace
}  // namespace assay

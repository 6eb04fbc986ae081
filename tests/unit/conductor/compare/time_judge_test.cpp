#include "harness/conductor/compare/time_judge.hpp"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace assay {
namespace {

// Log-normal forks around `median` seconds with that spread of ln(time).
std::vector<double> forks(int count, double median, double spread, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(median * std::exp(normal(engine)));
  return values;
}

TEST(TimeJudge, calls_a_change_past_the_threshold_by_its_direction) {
  const auto base = forks(12, 1e-3, 0.01, 1);
  EXPECT_EQ(judge_times(base, forks(12, 1.1e-3, 0.01, 2), {}).verdict, Verdict::slower);
  EXPECT_EQ(judge_times(base, forks(12, 0.9e-3, 0.01, 3), {}).verdict, Verdict::faster);
  EXPECT_EQ(judge_times(base, forks(12, 1.0e-3, 0.01, 4), {}).verdict, Verdict::same);
  EXPECT_NEAR(*judge_times(base, forks(12, 1.1e-3, 0.01, 2), {}).ratio, 1.1, 0.02);
}

TEST(TimeJudge, turns_round_where_more_is_better) {
  JudgeSettings settings;
  settings.higher_is_better = true;
  const auto base = forks(12, 1000, 0.01, 1), fewer = forks(12, 880, 0.01, 2);
  const CellVerdict cell = judge_times(base, fewer, settings);
  EXPECT_EQ(cell.verdict, Verdict::slower);
  EXPECT_GT(*cell.ratio, 1.05);
}

TEST(TimeJudge, a_certain_change_below_the_threshold_is_the_same) {
  const CellVerdict cell = judge_times(forks(12, 1e-3, 0.002, 1), forks(12, 1.02e-3, 0.002, 2), {});
  EXPECT_GT(*cell.lower, 1);
  EXPECT_EQ(cell.verdict, Verdict::same);
}

TEST(TimeJudge, a_noisy_change_is_inconclusive_with_a_number_of_forks) {
  const CellVerdict cell = judge_times(forks(6, 1e-3, 0.08, 1), forks(6, 1.06e-3, 0.08, 2), {});
  EXPECT_EQ(cell.verdict, Verdict::inconclusive);
  ASSERT_TRUE(cell.forks_needed);
  EXPECT_GT(*cell.forks_needed, 6);
  EXPECT_NE(cell.reason.find("forks per side"), std::string::npos);
}

TEST(TimeJudge, too_few_forks_never_decide_however_large_the_change) {
  const CellVerdict cell = judge_times(forks(3, 1e-3, 0.001, 1), forks(3, 2e-3, 0.001, 2), {});
  EXPECT_EQ(cell.verdict, Verdict::inconclusive);
  EXPECT_NEAR(*cell.ratio, 2, 0.01);
  EXPECT_EQ(cell.forks_needed, 4);
  EXPECT_NE(cell.reason.find("at most 90 %"), std::string::npos);
}

TEST(TimeJudge, a_known_spread_between_runs_widens_the_interval) {
  const auto base = forks(12, 1e-3, 0.005, 1), slower = forks(12, 1.07e-3, 0.005, 2);
  EXPECT_EQ(judge_times(base, slower, {}).verdict, Verdict::slower);
  JudgeSettings settings;
  settings.between_runs = {0.04, 0};
  const CellVerdict cell = judge_times(base, slower, settings);
  EXPECT_EQ(cell.verdict, Verdict::inconclusive);
  EXPECT_LT(*cell.lower, 1);
}

TEST(TimeJudge, AFewRunsKnowTheirSpreadLessThanMany) {
  const RunSpread few{0.02, 4}, many{0.02, 400}, exact{0.02, 0};
  EXPECT_NEAR(run_half_width(exact, 0.95), 1.959964 * 1.414214 * 0.02, 1e-7);
  EXPECT_NEAR(run_half_width(few, 0.95), 2.776445 * 1.414214 * 0.02, 1e-7);
  EXPECT_NEAR(run_half_width(many, 0.95), run_half_width(exact, 0.95), 4e-4 * 0.5);
  EXPECT_EQ(run_half_width({}, 0.95), 0);
}

TEST(TimeJudge, needs_forks_that_are_times) {
  EXPECT_EQ(judge_times({}, forks(6, 1, 0.01, 1), {}).verdict, Verdict::inconclusive);
  EXPECT_EQ(judge_times(std::vector<double>{1, 0, 2}, forks(6, 1, 0.01, 1), {}).verdict,
            Verdict::inconclusive);
  EXPECT_EQ(min_forks_for(0.95), 4);
  EXPECT_EQ(min_forks_for(0.9975), 6);
}

// The promise of the gate without any change: of 20 cells judged together, rarely one is called slower.
TEST(TimeJudge, seldom_cries_wolf_over_a_comparison_of_twenty_cells) {
  JudgeSettings settings;
  settings.confidence = 1 - 0.05 / 20;
  int alarms = 0;
  for (unsigned comparison = 0; comparison < 200; ++comparison) {
    bool slower = false;
    for (unsigned cell = 0; cell < 20; ++cell) {
      const unsigned seed = 1000 * comparison + 2 * cell;
      slower |= judge_times(forks(12, 1, 0.03, seed), forks(12, 1, 0.03, seed + 1), settings).verdict ==
                Verdict::slower;
    }
    alarms += slower;
  }
  EXPECT_LE(alarms, 2);
}

}  // namespace
}  // namespace assay

// A short run of what scripts/simulate-gate does at length: what the gate promises, on noise of real forks.
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/simulation/replay.hpp"
#include "tests/simulation/u_test.hpp"

namespace assay::simulation {
namespace {

const std::vector<Series>& noise() {
  static const std::vector<Series> all = read_noise(ASSAY_NOISE);
  return all;
}

constexpr int comparisons = 25;

TEST(Simulation, has_noise_of_every_kind_that_was_recorded_on_purpose) {
  std::set<std::string> kinds;
  for (const Series& series : noise()) {
    kinds.insert(series.kind);
    EXPECT_GE(series.forks.size(), 40U) << series.name;
  }
  for (const char* kind : {"quiet", "drift", "bursts", "bimodal", "tails"})
    EXPECT_TRUE(kinds.contains(kind)) << kind;
}

TEST(Simulation, the_gate_is_quieter_than_a_pooled_u_test_on_every_recording) {
  Design design;
  for (const Series& series : noise()) {
    Philox lot(7, series.name);
    int u_test = 0, compare = 0, cells = 0;
    for (int i = 0; i < comparisons * design.cells; ++i, ++cells) {
      const TwoRuns runs = two_runs(series, design, 0, lot);
      u_test += flagged_by_u_test(runs);
      compare += by_compare(runs, design, 0).verdict == Verdict::slower;
    }
    EXPECT_LE(compare, u_test) << series.name;
    EXPECT_GT(u_test, cells / 20) << series.name << ": the U test keeps its 5 % on none of them";
  }
}

TEST(Simulation, ab_cries_no_wolf_on_any_recording) {
  Design design;
  design.confidence = 0.95;
  int alarms = 0, all = 0;
  for (const Series& series : noise()) {
    Philox lot(8, series.name);
    for (int i = 0; i < 5 * design.cells; ++i, ++all)
      alarms += by_ab(series, design, 0, lot).verdict.verdict == Verdict::slower;
  }
  EXPECT_LE(alarms, all / 1000) << "fewer than one comparison of 20 cells in fifty";
}

TEST(Simulation, a_large_change_is_found_where_forks_are_steady) {
  Design design;
  for (const Series& series : noise()) {
    if (series.spread() > 0.02) continue;
    Philox lot(9, series.name);
    int found = 0;
    for (int i = 0; i < 100; ++i) {
      design.threshold = 0.05;
      found += by_compare(two_runs(series, design, 0.10, lot), design, 0).verdict == Verdict::slower;
    }
    EXPECT_GE(found, 90) << series.name;
  }
}

TEST(UTest, gives_known_values) {
  EXPECT_NEAR(mann_whitney_p(std::vector<double>{1, 2, 3, 4, 5}, std::vector<double>{6, 7, 8, 9, 10}),
              0.012185780355344813, 1e-12);
  EXPECT_EQ(mann_whitney_p(std::vector<double>{1, 1}, std::vector<double>{1, 1}), 1);
}

}  // namespace
}  // namespace assay::simulation

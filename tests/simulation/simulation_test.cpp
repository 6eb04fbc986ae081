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

TEST(Simulation, a_calibrated_gate_is_far_quieter_than_a_pooled_u_test_on_every_recording) {
  const Design design;
  int alarms = 0, u_test = 0, all = 0;
  for (const Series& series : noise()) {
    Philox lot(7, series.name);
    for (int i = 0; i < comparisons; ++i, ++all) {
      const Places places = two_places(series, design, lot);
      const auto between = calibrated(series, design, lot);
      bool alarm = false, flagged = false;
      for (int cell = 0; cell < design.cells; ++cell) {
        const TwoRuns runs = two_runs(series, design, places, cell, 0);
        flagged |= flagged_by_u_test(runs);
        alarm |= by_compare(runs, design, between[static_cast<std::size_t>(cell)]).verdict == Verdict::slower;
      }
      u_test += flagged;
      alarms += alarm;
    }
  }
  EXPECT_GT(u_test, all / 2) << "of twenty cells it flags one or more where nothing changed";
  EXPECT_LE(alarms, all / 50);
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
  Design finer = design;
  finer.threshold = 0.02;
  for (const Series& recorded : noise()) {
    if (recorded.kind != "quiet") continue;
    const Series series = scaled(recorded, 0.02);
    EXPECT_NEAR(series.spread(), 0.02, 1e-4);
    Philox lot(9, series.name);
    const auto at = [&](const Series& one, const Design& with, double effect, int i) {
      return two_runs(one, with, two_places(one, with, lot), i % with.cells, effect);
    };
    int ten = 0, five = 0;
    for (int i = 0; i < 200; ++i) {
      ten += by_compare(at(series, design, 0.10, i), design, {}).verdict == Verdict::slower;
      five += by_compare(at(series, finer, 0.05, i), finer, {}).verdict == Verdict::slower;
    }
    EXPECT_GE(ten, 190) << series.name;
    EXPECT_GE(five, 160) << series.name;
  }
}

TEST(UTest, gives_known_values) {
  EXPECT_NEAR(mann_whitney_p(std::vector<double>{1, 2, 3, 4, 5}, std::vector<double>{6, 7, 8, 9, 10}),
              0.012185780355344813, 1e-12);
  EXPECT_EQ(mann_whitney_p(std::vector<double>{1, 1}, std::vector<double>{1, 1}), 1);
}

}  // namespace
}  // namespace assay::simulation

// Whether flags depend on the backend.
#include "harness/report/flag_rates.hpp"

#include <gtest/gtest.h>

#include "harness/report/fork_time.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

const FlagRate& rate_of(const std::vector<FlagRate>& rates, const std::string& backend) {
  return *std::ranges::find(rates, backend, &FlagRate::backend);
}

TEST(FlagRates, AgreeWithFishersTestWithinARound) {
  // Fisher's tea: of 8 forks of one round 4 are flagged, 3 of them of one backend: p = 0.4857.
  Report report;
  for (int i = 0; i < 8; ++i) {
    report.cells.push_back(test::sample_cell(i < 4 ? "torch" : "jax", "mode" + std::to_string(i), 1e-3, 1));
    if (i == 0 || i == 1 || i == 2 || i == 4) report.cells.back().forks[0].flags = {quality_flag::placement};
  }
  const std::vector<FlagRate> rates = flag_rates(report);
  ASSERT_EQ(rates.size(), 2U);
  EXPECT_EQ(rate_of(rates, "torch").flagged, 3);
  EXPECT_EQ(rate_of(rates, "torch").forks, 4);
  EXPECT_NEAR(rate_of(rates, "torch").p.value(), 0.485714, 1e-6);
  EXPECT_NEAR(rate_of(rates, "jax").p.value(), 0.485714, 1e-6);
  EXPECT_FALSE(rate_of(rates, "jax").differs);
}

TEST(FlagRates, DifferIfAFlagFollowsTheProgram) {
  Report report = test::sample_report(12);
  EXPECT_TRUE(flag_rates(report).empty());
  for (Fork& fork : report.cells[0].forks) fork.flags = {quality_flag::disturbed};
  const std::vector<FlagRate> rates = flag_rates(report);
  EXPECT_NEAR(rate_of(rates, "onednn").p.value(), 2 / 4096.0, 1e-9)
      << "the same one in each of twelve rounds";
  EXPECT_TRUE(rate_of(rates, "onednn").differs);
  EXPECT_TRUE(rate_of(rates, "torch").differs);
}

TEST(FlagRates, DoNotDifferIfWholeRoundsWereDisturbedOrNothingRanBeside) {
  Report report = test::sample_report(12);
  for (CellReport& cell : report.cells)
    for (Fork& fork : cell.forks)
      if (fork.round < 6) fork.flags = {quality_flag::disturbed};
  // Only one of them has these, in another session.
  report.cells[0].forks.push_back(report.cells[0].forks[0]);
  report.cells[0].forks.back().session = 1;
  const std::vector<FlagRate> rates = flag_rates(report);
  EXPECT_EQ(rate_of(rates, "onednn").flagged, 7);
  EXPECT_FALSE(rate_of(rates, "onednn").p) << "no round says more of one than of the other";
  EXPECT_FALSE(rate_of(rates, "torch").differs);
}

}  // namespace
}  // namespace assay

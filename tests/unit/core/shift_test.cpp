#include "harness/core/statistics.hpp"

#include <cmath>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace assay {
namespace {

const std::vector<double> pairs = {2.1, 0.703, -1.232, 0.416, -0.663, -0.129, 0.012, -0.213, 1.053};

struct Expected {
  double asked, lower, upper, attained;
};

// Computed in Python over all 2^9 signs of the ranks.
TEST(Shift, PairsAgreeWithAllSigns) {
  for (const Expected& e :
       {Expected{0.90, -0.396, 0.878, 0.90234375}, Expected{0.95, -0.61, 1.053, 0.9609375},
        Expected{0.99, -0.9475, 1.5765, 0.9921875}}) {
    const Shift shift = paired_shift(pairs, e.asked);
    EXPECT_NEAR(shift.estimate, 0.195, 1e-12);
    ASSERT_TRUE(shift.interval);
    EXPECT_NEAR(shift.interval->lower, e.lower, 1e-12);
    EXPECT_NEAR(shift.interval->upper, e.upper, 1e-12);
    EXPECT_NEAR(shift.interval->confidence, e.attained, 1e-12);
  }
}

// scipy.stats.wilcoxon(pairs, method="exact") has p = 0.6523: an interval holds no change exactly where the test of its
// confidence does not reject it.
TEST(Shift, LeavesOutNoChangeWhereScipysExactTestRejectsIt) {
  const auto holds_zero = [](const Shift& shift) {
    return shift.interval->lower <= 0 && shift.interval->upper >= 0;
  };
  EXPECT_TRUE(holds_zero(paired_shift(pairs, 1 - 0.6523)));
  EXPECT_FALSE(holds_zero(paired_shift(pairs, 1 - 0.6524)));
}

TEST(Shift, has_no_interval_where_so_few_values_cannot_attain_it) {
  const std::vector<double> three = {1, 2, 3};
  EXPECT_FALSE(paired_shift(three, 0.95).interval);
  EXPECT_NEAR(attainable_paired(6), 0.96875, 1e-12);
}

// Values whose order is mixed, without ties.
std::vector<double> mixed(int count, double above) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(std::fmod(0.6180339887498949 * i, 1) + above);
  return values;
}

// 584 pairs are counted exactly, and 585 by the normal distribution.
TEST(Shift, OfSamplesTooLargeToCountIsNearlyTheExactOne) {
  for (const double confidence : {0.9, 0.95, 0.999}) {
    const Shift few = paired_shift(mixed(584, -0.3), confidence),
                many = paired_shift(mixed(585, -0.3), confidence);
    EXPECT_NEAR(many.interval->lower, few.interval->lower, 5e-3);
    EXPECT_NEAR(many.interval->upper, few.interval->upper, 5e-3);
    EXPECT_NEAR(many.interval->confidence, confidence, 2e-4);
  }
}

TEST(Shift, refuses_samples_without_an_answer) {
  EXPECT_THROW(paired_shift({}, 0.95), std::invalid_argument);
  EXPECT_THROW(paired_shift(pairs, 1), std::invalid_argument);
}

}  // namespace
}  // namespace assay

#include "harness/core/statistics.hpp"

#include <cmath>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace assay {
namespace {

const std::vector<double> first_sample = {-0.802, -1.324, -0.248, 0.42, 1.136, 0.11};
const std::vector<double> second_sample = {0.247, 0.015, 1.549, 2.435, 1.073, -0.433, -0.158};
const std::vector<double> pairs = {2.1, 0.703, -1.232, 0.416, -0.663, -0.129, 0.012, -0.213, 1.053};

struct Expected {
  double asked, lower, upper, attained;
};

// Computed in Python over all C(13, 6) arrangements of the ranks.
TEST(Shift, TwoSamplesAgreeWithAllArrangements) {
  for (const Expected& e :
       {Expected{0.90, -0.268, 1.875, 0.9265734265734266}, Expected{0.95, -0.543, 2.325, 0.965034965034965},
        Expected{0.99, -0.889, 2.683, 0.9918414918414918}}) {
    const Shift shift = unpaired_shift(first_sample, second_sample, e.asked);
    EXPECT_NEAR(shift.estimate, 0.735, 1e-12);
    ASSERT_TRUE(shift.interval);
    EXPECT_NEAR(shift.interval->lower, e.lower, 1e-12);
    EXPECT_NEAR(shift.interval->upper, e.upper, 1e-12);
    EXPECT_NEAR(shift.interval->confidence, e.attained, 1e-12);
  }
}

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

// scipy.stats.mannwhitneyu(first_sample, second_sample, method="exact") has p = 0.2949,
// scipy.stats.wilcoxon(pairs, method="exact")
// 0.6523: an interval holds no change exactly where the test of its confidence does not reject it.
TEST(Shift, leaves_out_no_change_where_scipys_exact_tests_reject_it) {
  const auto holds_zero = [](const Shift& shift) {
    return shift.interval->lower <= 0 && shift.interval->upper >= 0;
  };
  EXPECT_TRUE(holds_zero(unpaired_shift(first_sample, second_sample, 1 - 0.2948)));
  EXPECT_FALSE(holds_zero(unpaired_shift(first_sample, second_sample, 1 - 0.2950)));
  EXPECT_TRUE(holds_zero(paired_shift(pairs, 1 - 0.6523)));
  EXPECT_FALSE(holds_zero(paired_shift(pairs, 1 - 0.6524)));
}

TEST(Shift, has_no_interval_where_so_few_values_cannot_attain_it) {
  const std::vector<double> three = {1, 2, 3}, others = {11, 12, 13};
  EXPECT_FALSE(unpaired_shift(three, others, 0.95).interval);
  EXPECT_NEAR(attainable_unpaired(3, 3), 0.9, 1e-12);
  const Shift shift = unpaired_shift(three, others, 0.9);
  ASSERT_TRUE(shift.interval);
  EXPECT_EQ(shift.interval->lower, 8);
  EXPECT_EQ(shift.interval->upper, 12);
  EXPECT_FALSE(paired_shift(three, 0.95).interval);
  EXPECT_NEAR(attainable_paired(6), 0.96875, 1e-12);
}

TEST(Shift, keeps_its_probabilities_for_many_forks) {
  std::vector<double> many, shifted;
  for (int i = 0; i < 120; ++i) {
    many.push_back(i % 11 + 0.01 * i);
    shifted.push_back(i % 11 + 0.01 * i + 0.5);
  }
  const Shift shift = unpaired_shift(many, shifted, 0.999);
  EXPECT_NEAR(shift.estimate, 0.5, 0.05);
  ASSERT_TRUE(shift.interval);
  EXPECT_GE(shift.interval->confidence, 0.999);
  EXPECT_LT(shift.interval->confidence, 0.9991);
}

// Values whose order is mixed, without ties.
std::vector<double> mixed(int count, double above) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(std::fmod(0.6180339887498949 * i, 1) + above);
  return values;
}

// 464 values a side are judged exactly, and 465 by the normal distribution; 584 and 585 pairs.
TEST(Shift, OfSamplesTooLargeToCountIsNearlyTheExactOne) {
  for (const double confidence : {0.9, 0.95, 0.999}) {
    const Shift exact = unpaired_shift(mixed(464, 0), mixed(464, 0.1), confidence),
                normal = unpaired_shift(mixed(465, 0), mixed(465, 0.1), confidence);
    EXPECT_NEAR(normal.interval->lower, exact.interval->lower, 5e-3);
    EXPECT_NEAR(normal.interval->upper, exact.interval->upper, 5e-3);
    EXPECT_NEAR(normal.interval->confidence, confidence, 2e-4);
    const Shift few = paired_shift(mixed(584, -0.3), confidence),
                many = paired_shift(mixed(585, -0.3), confidence);
    EXPECT_NEAR(many.interval->lower, few.interval->lower, 5e-3);
    EXPECT_NEAR(many.interval->upper, few.interval->upper, 5e-3);
    EXPECT_NEAR(many.interval->confidence, confidence, 2e-4);
  }
}

TEST(Shift, refuses_samples_without_an_answer) {
  EXPECT_THROW(unpaired_shift({}, second_sample, 0.95), std::invalid_argument);
  EXPECT_THROW(unpaired_shift(first_sample, second_sample, 1), std::invalid_argument);
  EXPECT_THROW(paired_shift({}, 0.95), std::invalid_argument);
}

}  // namespace
}  // namespace assay

#include "harness/core/statistics.hpp"

#include <optional>
#include <stdexcept>

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(Statistics, takes_the_middle_or_the_mean_of_the_two_middle_values) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median(std::vector<double>{7}), 7);
  EXPECT_THROW(median({}), std::invalid_argument);
}

// numpy.quantile([1, 2, 4, 8], p), whose default is type 7.
TEST(Statistics, interpolates_quantiles_as_type_7) {
  const std::vector<double> values = {8, 1, 4, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 6.8);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 8);
  EXPECT_THROW(quantile(values, 1.5), std::invalid_argument);
  EXPECT_THROW(quantile({}, 0.5), std::invalid_argument);
}

std::vector<double> first(std::size_t n) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<double>(n - i);  // n..1, unsorted on purpose
  return values;
}

// Checked with exact binomial sums; the first three are the minimum queries of MLPerf Inference's early stopping.
TEST(Statistics, APercentileNeedsTheCountsOfEarlyStopping) {
  EXPECT_EQ(values_for_quantile(0.9, 0.99), 64);
  EXPECT_EQ(values_for_quantile(0.99, 0.99), 662);
  EXPECT_EQ(values_for_quantile(0.999, 0.99), 6636);
  EXPECT_EQ(values_for_quantile(0.5, 0.99), 11);
  EXPECT_THROW(values_for_quantile(1, 0.99), std::invalid_argument);
}

TEST(Statistics, BoundsAQuantileByAnOrderStatistic) {
  EXPECT_FALSE(quantile_bound(first(63), 0.9, 0.99));
  EXPECT_EQ(quantile_bound(first(64), 0.9, 0.99), 63) << "the second largest";
  // P(Binomial(100, 0.1) <= 3) = 0.0078, and 0.0237 for 4.
  EXPECT_EQ(quantile_bound(first(100), 0.9, 0.99), 97);
  EXPECT_EQ(quantile_bound(first(6635), 0.999, 0.99), std::nullopt);
  EXPECT_EQ(quantile_bound(first(6636), 0.999, 0.99), 6635);
}

// Coverage by the exact binomial: n = 6 gives 1 - 2/64; n = 10 gives 1 - 22/1024 for the second and ninth.
TEST(Statistics, bounds_the_median_and_reports_the_confidence) {
  const auto six = median_interval(first(6));
  ASSERT_TRUE(six);
  EXPECT_EQ(six->lower, 1);
  EXPECT_EQ(six->upper, 6);
  EXPECT_NEAR(six->confidence, 1 - 2.0 / 64, 1e-12);
  const auto ten = median_interval(first(10));
  ASSERT_TRUE(ten);
  EXPECT_EQ(ten->lower, 2);
  EXPECT_EQ(ten->upper, 9);
  EXPECT_NEAR(ten->confidence, 1 - 22.0 / 1024, 1e-12);
  const auto many = median_interval(first(100));  // tables: 40 and 61, 0.9648
  ASSERT_TRUE(many);
  EXPECT_EQ(many->lower, 40);
  EXPECT_EQ(many->upper, 61);
  EXPECT_NEAR(many->confidence, 0.9648, 1e-4);
}

TEST(Statistics, GivesNoBoundsIfNoPairReachesTheConfidence) {
  EXPECT_FALSE(median_interval(first(5)));
  EXPECT_FALSE(median_interval(first(5), 0.5));
  EXPECT_FALSE(median_interval(first(6), 0.99));
  EXPECT_TRUE(median_interval(first(8), 0.99));
  EXPECT_TRUE(median_interval(first(3000)));
}

TEST(Statistics, pairs_only_the_rounds_in_which_both_are_there) {
  const std::vector<std::optional<double>> a = {2.0, std::nullopt, 6.0, 8.0};
  const std::vector<std::optional<double>> b = {1.0, 1.0, 2.0};
  EXPECT_EQ(paired_ratios(a, b), (std::vector<double>{2, 3}));
}

}  // namespace
}  // namespace assay

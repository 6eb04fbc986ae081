#include "harness/conductor/check/tolerance.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "harness/core/numerics.hpp"

namespace assay {
namespace {

const std::vector<double> exact{1, -2, 2};

TEST(Tolerance, measures_the_largest_and_the_relative_l2_error) {
  const Bound error = error_norms(std::vector<double>{1, -2, 2.3}, exact);
  EXPECT_NEAR(error.max, 0.3, 1e-15);
  EXPECT_NEAR(error.l2, 0.1, 1e-15);
}

TEST(Tolerance, takes_the_worse_of_both_errors) {
  const TensorVerdict by_max = compare("x", std::vector<double>{1, -2, 2.3}, exact, {0.1, 1});
  EXPECT_NEAR(by_max.ratio, 3, 1e-12);
  const TensorVerdict by_l2 = compare("x", std::vector<double>{1, -2, 2.3}, exact, {1, 0.05});
  EXPECT_NEAR(by_l2.ratio, 2, 1e-12);
}

TEST(Tolerance, grows_with_the_errors_that_were_seen) {
  const Precision fp32;
  const Bound small = bound_of({1e-6, 1e-6}, exact, fp32);
  const Bound large = bound_of({1e-3, 1e-3}, exact, fp32);
  EXPECT_GT(small.max, 1e-6 * tolerance_factor);
  EXPECT_LT(small.max, 1e-4);
  EXPECT_GT(large.max, 1e-3 * tolerance_factor);
  EXPECT_LT(large.max, 0.1);
}

TEST(Tolerance, never_asks_for_less_than_a_few_roundings) {
  const Bound bound = bound_of({0, 0}, exact, Precision{});
  EXPECT_DOUBLE_EQ(bound.max, floor_roundings * 0x1p-24 * 2);
  EXPECT_DOUBLE_EQ(bound.l2, floor_roundings * 0x1p-24);
}

TEST(Tolerance, is_wider_for_a_scalar_whose_error_is_poorly_known) {
  const std::vector<double> many(10000, 1.0);
  EXPECT_GT(bound_of({1e-3, 1e-3}, std::vector<double>{1}, Precision{}).max,
            2 * bound_of({1e-3, 1e-3}, many, Precision{}).max);
}

TEST(Tolerance, grows_with_the_length_of_a_sum_in_the_type_that_sums) {
  const Precision fp32, bf16 = precision_of(PrecisionKind::bf16);
  const Bound once = bound_of({1e-6, 1e-6}, exact, fp32), often = bound_of({1e-6, 1e-6}, exact, fp32, 25);
  EXPECT_NEAR(often.max, 5 * once.max, 1e-12);
  EXPECT_NEAR(often.l2, 5 * once.l2, 1e-12);
  EXPECT_NEAR(bound_of({1e-2, 1e-2}, exact, bf16, 25).max, bound_of({1e-2, 1e-2}, exact, bf16).max, 1e-5);
}

TEST(Tolerance, is_wider_where_narrow_storage_holds_nothing_but_rounding) {
  const Precision fp32, bf16 = precision_of(PrecisionKind::bf16);
  const std::vector<double> rounding{1e-17, -2e-17, 2e-17};
  const double of_value = bound_of({1e-3, 1}, exact, bf16).max;
  const double of_rounding = bound_of({1e-3, 1}, rounding, bf16).max;
  EXPECT_NEAR(of_rounding, correlated_rounding_factor * of_value, 1e-5);
  EXPECT_NEAR(bound_of({1e-3, 1}, exact, bf16, 1, true).max, of_rounding, 1e-5)
      << "a moment of such a parameter";
  EXPECT_NEAR(bound_of({1e-3, 1}, exact, fp32, 1, true).max, bound_of({1e-3, 1}, exact, fp32).max, 1e-5);
  EXPECT_NEAR(bound_of({1e-3, 1}, rounding, fp32).max, bound_of({1e-3, 1}, exact, fp32).max, 1e-5);
}

// Root mean square over draws of what is left of the sum of a batch norm's gradient, which is zero but for
// the bf16 that each element is stored in. `scale` is weight / deviation; the gradient that comes in is bf16,
// too, and zero in a third of the places, where a ReLU did not let it pass.
double left_of_the_sum(double scale) {
  const int elements = 8192, draws = 40;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  double squares = 0;
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<double> given(elements);
    double mean = 0;
    for (double& element : given) {
      const double value = 0.003 * normal(random);
      element = random() % 3 == 0 ? 0 : from_bf16(to_bf16(static_cast<float>(value)));
      mean += element / elements;
    }
    double left = 0;
    for (const double element : given)
      left += from_bf16(to_bf16(static_cast<float>(scale * (element - mean))));
    squares += left * left / draws;
  }
  return std::sqrt(squares);
}

TEST(Tolerance, covers_a_mean_that_is_lost_in_every_element) {
  const double once = left_of_the_sum(1), off = left_of_the_sum(0.99);
  EXPECT_GT(once, 2 * off);
  EXPECT_LT(once, 3.6 * off);
}

TEST(Tolerance, is_exact_where_the_oracle_is_zero_and_saw_no_error) {
  const std::vector<double> zero(3, 0.0);
  const Bound bound = bound_of({0, 0}, zero, Precision{});
  EXPECT_EQ(compare("x", zero, zero, bound).ratio, 0);
  EXPECT_EQ(compare("x", std::vector<double>{0, 1e-6, 0}, zero, bound).ratio, beyond_measure);
}

TEST(Tolerance, fails_values_that_are_not_finite_with_a_finite_ratio) {
  const TensorVerdict verdict = compare("x", std::vector<double>{1, std::nan(""), 2}, exact, {1e9, 1e9});
  EXPECT_EQ(verdict.ratio, beyond_measure);
  EXPECT_TRUE(std::isfinite(verdict.max_error));
}

}  // namespace
}  // namespace assay

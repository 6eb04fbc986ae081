#include "harness/core/numerics.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(Numerics, UnitRoundoffIsHalfTheStepAfterOne) {
  EXPECT_EQ(unit_roundoff(DType::f64), std::numeric_limits<double>::epsilon() / 2);
  EXPECT_EQ(unit_roundoff(DType::f32), std::numeric_limits<float>::epsilon() / 2);
  EXPECT_EQ(unit_roundoff(DType::bf16), 0x1p-8);
  EXPECT_EQ(unit_roundoff(DType::i32), 0);
}

TEST(Numerics, TheDistanceIsTheNormOfTheDifference) {
  const std::vector<double> a{3, 1, 5}, b{0, 1, 1};
  EXPECT_EQ(l2_distance(a, b), 5);
  EXPECT_EQ(l2_norm(std::vector<double>{3, 0, -4}), 5);
  EXPECT_EQ(l2_norm({}), 0);
}

TEST(Numerics, ErrorNormsAreTheLargestAndTheRelativeOne) {
  const std::vector<double> exact{3, 0, 4}, got{3, 0.5, 4};
  const ErrorNorms error = error_norms(got, exact);
  EXPECT_EQ(error.max, 0.5);
  EXPECT_EQ(error.l2, 0.1);
}

TEST(Numerics, ErrorNormsAreAbsoluteWhereTheExactIsZero) {
  const std::vector<double> exact{0, 0}, got{0.6, 0.8};
  EXPECT_EQ(error_norms(got, exact).l2, 1);
}

TEST(Numerics, ErrorNormsAreInfiniteWhereADifferenceIsNotFinite) {
  const std::vector<double> exact{1, 2}, got{1, NAN};
  const ErrorNorms error = error_norms(got, exact);
  EXPECT_EQ(error.max, INFINITY);
  EXPECT_EQ(error.l2, INFINITY);
}

TEST(Numerics, FindsTheFirstValueThatIsUnusable) {
  std::vector<float> values(10'000, -max_usable_value);
  EXPECT_EQ(find_unusable(values), values.size());
  EXPECT_EQ(find_unusable({}), 0U);
  for (const float bad : {NAN, INFINITY, -INFINITY, -1e20F, 1.1e15F})
    for (const std::size_t place : {0, 4095, 4096, 9999}) {
      std::vector<float> with = values;
      with.back() = with[place] = bad;
      EXPECT_EQ(find_unusable(with), place) << bad;
    }
}

TEST(Numerics, ReadsEveryHalf) {
  EXPECT_EQ(from_f16(0x3c00), 1);
  EXPECT_EQ(from_f16(0xc100), -2.5F);
  EXPECT_EQ(from_f16(0x7bff), 65504);
  EXPECT_EQ(from_f16(0x0001), 0x1p-24F);
  EXPECT_EQ(from_f16(0x03ff), 1023 * 0x1p-24F);
  EXPECT_TRUE(std::signbit(from_f16(0x8000)));
  EXPECT_EQ(from_f16(0xfc00), -INFINITY);
  EXPECT_TRUE(std::isnan(from_f16(0x7c01)));
}

}  // namespace
}  // namespace assay

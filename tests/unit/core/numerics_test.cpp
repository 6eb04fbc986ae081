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

}  // namespace
}  // namespace assay

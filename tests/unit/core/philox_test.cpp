#include "harness/core/io/philox.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace assay {
namespace {

using Block = std::array<std::uint32_t, 4>;

// From kat_vectors of Random123 1.14.
TEST(Philox, gives_the_known_answers_of_Random123) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, stream_depends_on_seed_and_name) {
  const auto first = [](std::uint64_t seed, const char* name) { return Philox(seed, name).next64(); };
  EXPECT_EQ(first(1, "conv1.weight"), first(1, "conv1.weight"));
  EXPECT_NE(first(1, "conv1.weight"), first(2, "conv1.weight"));
  EXPECT_NE(first(1, "conv1.weight"), first(1, "conv2.weight"));
  EXPECT_NE(first(1, "a"), first(std::uint64_t{1} << 32 | 1, "a"));
}

TEST(Philox, draws_numbers_with_uniform_moments) {
  Philox random(7, "uniform");
  double sum = 0, squares = 0;
  constexpr int n = 100'000;
  for (int i = 0; i < n; ++i) {
    const double u = i % 2 == 0 ? random.uniform_double() : static_cast<double>(random.uniform());
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.005);
}

TEST(Philox, draws_normal_numbers_of_mean_zero_and_variance_one) {
  Philox random(7, "normal");
  double sum = 0, squares = 0, fourth = 0;
  constexpr int n = 100'000;
  for (int i = 0; i < n; ++i) {
    const double z = random.normal();
    ASSERT_TRUE(std::isfinite(z));
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
  }
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.03);
  EXPECT_NEAR(fourth / n, 3, 0.2);
}

TEST(Philox, draws_integers_below_a_bound_evenly) {
  Philox random(3, "below");
  std::vector<int> counts(7);
  for (int i = 0; i < 70'000; ++i) ++counts.at(random.below(7));
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
  EXPECT_EQ(random.below(1), 0u);
}

TEST(Philox, shuffles_into_a_permutation_of_only_the_seed) {
  const auto shuffled = [](std::uint64_t seed) {
    std::vector<int> values(1000);
    std::iota(values.begin(), values.end(), 0);
    Philox(seed, "order").shuffle(std::span(values));
    return values;
  };
  std::vector<int> order = shuffled(1);
  EXPECT_EQ(order, shuffled(1));
  EXPECT_NE(order, shuffled(2));
  std::sort(order.begin(), order.end());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace assay

#include "backends/onednn/loops/loops.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace assay::onednn {
namespace {

std::vector<float> ramp(std::size_t n, float first, float step) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = first + step * static_cast<float>(i);
  return values;
}

TEST(Loops, adam_is_the_first_algorithm_of_Kingma_and_Ba) {
  constexpr std::size_t n = 37;
  const auto g = ramp(n, -1.0F, 0.07F);
  auto p = ramp(n, 0.5F, -0.01F), m = ramp(n, 0.01F, 0.001F), v = ramp(n, 0.02F, 0.001F);
  const auto p0 = p, m0 = m, v0 = v;
  const double t = 3, lr = 0.01;
  const AdamStep step{0.9F,
                      0.999F,
                      static_cast<float>(1 - 0.9),
                      static_cast<float>(1 - 0.999),
                      1e-8F,
                      0,
                      static_cast<float>(lr / (1 - std::pow(0.9, t))),
                      static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, t)))};
  loops().adam(step, p.data(), g.data(), m.data(), v.data(), static_cast<std::int64_t>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const double mi = 0.9 * m0[i] + 0.1 * g[i], vi = 0.999 * v0[i] + 0.001 * g[i] * g[i];
    const double expected =
        p0[i] - lr * (mi / (1 - std::pow(0.9, t))) / (std::sqrt(vi / (1 - std::pow(0.999, t))) + 1e-8);
    EXPECT_NEAR(m[i], mi, 1e-7);
    EXPECT_NEAR(v[i], vi, 1e-8);
    EXPECT_NEAR(p[i], expected, 1e-6) << i;
  }
}

TEST(Loops, cross_entropy_survives_large_logits_and_agrees_with_double) {
  constexpr std::int64_t rows = 21, classes = 10;
  std::vector<float> logits = ramp(rows * classes, -30.0F, 0.4F);
  logits[5] = 500.0F;
  std::vector<std::int32_t> labels(rows);
  for (std::size_t n = 0; n < rows; ++n) labels[n] = static_cast<std::int32_t>(n % classes);
  std::vector<float> p(logits.size()), scratch(16 * classes);
  const double loss =
      loops().cross_entropy(logits.data(), labels.data(), rows, classes, p.data(), scratch.data());
  double expected = 0;
  for (std::size_t n = 0; n < rows; ++n) {
    const float* row = logits.data() + n * classes;
    double largest = row[0], sum = 0;
    for (std::size_t c = 0; c < classes; ++c) largest = std::max(largest, static_cast<double>(row[c]));
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(row[c]) - largest);
    for (std::size_t c = 0; c < classes; ++c) {
      EXPECT_NEAR(p[n * classes + c], std::exp(static_cast<double>(row[c]) - largest) / sum, 5e-7);
    }
    expected += std::log(sum) + largest - static_cast<double>(row[labels[n]]);
  }
  EXPECT_NEAR(loss, expected, 1e-6 * expected);
}

TEST(Loops, cross_entropy_of_a_NaN_is_a_NaN) {
  std::vector<float> logits{0.0F, std::numeric_limits<float>::quiet_NaN()}, p(2), scratch(32);
  const std::int32_t label = 0;
  EXPECT_TRUE(std::isnan(loops().cross_entropy(logits.data(), &label, 1, 2, p.data(), scratch.data())));
}

TEST(Loops, a_mask_of_zero_or_less_stops_the_gradient) {
  const std::vector<float> mask{-1.0F, -0.0F, 0.0F, 1e-30F, 2.0F}, dy{1, 2, 3, 4, 5};
  std::vector<float> dx(5);
  loops().mask_f32(mask.data(), dy.data(), dx.data(), 5);
  EXPECT_EQ(dx, (std::vector<float>{0, 0, 0, 4, 5}));
  const std::vector<std::uint16_t> half_mask{0xbf80, 0x8000, 0, 0x0001, 0x4000}, half_dy{1, 2, 3, 4, 5};
  std::vector<std::uint16_t> half(5);
  loops().mask_bf16(half_mask.data(), half_dy.data(), half.data(), 5);
  EXPECT_EQ(half, (std::vector<std::uint16_t>{0, 0, 0, 4, 5}));
}

TEST(Loops, pool_gradient_row_ends_in_zeros_without_a_window) {
  const std::vector<float> dy{4, 8, 12, 16}, mask(10, 1.0F);  // two windows of two channels
  std::vector<float> dx(10, -1.0F);
  loops().average_pool_gradient_row({2, 2, 5, 2, 2, 2, 0.25F}, dy.data(), mask.data(), dx.data());
  EXPECT_EQ(dx, (std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4, 0, 0}));
}

}  // namespace
}  // namespace assay::onednn

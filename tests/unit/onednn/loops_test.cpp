#include "backends/onednn/loops/loops.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace assay::onednn {
namespace {

std::vector<float> ramp(std::size_t n, float first, float step) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = first + step * static_cast<float>(i);
  return values;
}

constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min();  // no label is ignored

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
                      static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, t))),
                      0};
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
      loops().cross_entropy(logits.data(), labels.data(), none, rows, classes, p.data(), scratch.data());
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

TEST(Loops, cross_entropy_of_an_ignored_label_is_zero) {
  const std::vector<float> logits{0.0F, 1.0F, 2.0F, 0.5F};
  const std::vector<std::int32_t> labels{1, 0};
  std::vector<float> p(4), scratch(32);
  const auto loss = [&](std::int64_t ignored, std::int64_t rows) {
    return loops().cross_entropy(logits.data(), labels.data(), ignored, rows, 2, p.data(), scratch.data());
  };
  EXPECT_EQ(loss(0, 2), loss(none, 1));
  EXPECT_EQ(loss(1, 1), 0);
}

TEST(Loops, cross_entropy_of_a_NaN_is_a_NaN) {
  std::vector<float> logits{0.0F, std::numeric_limits<float>::quiet_NaN()}, p(2), scratch(32);
  const std::int32_t label = 0;
  EXPECT_TRUE(std::isnan(loops().cross_entropy(logits.data(), &label, none, 1, 2, p.data(), scratch.data())));
}

TEST(Loops, DecoupledDecayShrinksTheParameterAndLeavesTheMoments) {
  const AdamStep plain{0.9F, 0.999F, 0.1F, 0.001F, 1e-8F, 0, 0.01F, 1, 0};
  AdamStep decoupled = plain;
  decoupled.shrink = 0.25F;
  const std::vector<float> g{0.5F, -2.0F};
  std::vector<float> p{4.0F, -8.0F}, m{0.5F, 0.25F}, v{1.0F, 2.0F}, q = p, n = m, w = v;
  loops().adam(plain, p.data(), g.data(), m.data(), v.data(), 2);
  loops().adam(decoupled, q.data(), g.data(), n.data(), w.data(), 2);
  EXPECT_EQ(m, n);
  EXPECT_EQ(v, w);
  EXPECT_NEAR(q[0], p[0] - 1, 1e-6);
  EXPECT_NEAR(q[1], p[1] + 2, 1e-6);
}

// Every 1/512 from -16 to 16, against double and a difference of it.
void expect_exact(const Curve& curve, const std::function<double(double)>& value) {
  const auto x = ramp(16385, -16.0F, 0x1p-9F);
  std::vector<float> y(x.size()), ones(x.size(), 1.0F), slope(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  curve.value(x.data(), y.data(), n);
  curve.gradient(x.data(), ones.data(), slope.data(), n);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = static_cast<double>(x[i]), step = 1e-4;
    EXPECT_NEAR(y[i], value(at), 3e-7 * std::max(std::abs(at), 1.0)) << at;
    EXPECT_NEAR(slope[i], (value(at + step) - value(at - step)) / (2 * step), 5e-7) << at;
  }
}

TEST(Loops, GeluAndSiluAreExactToAFewUnitsInTheLastPlace) {
  expect_exact(loops().curves.gelu, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); });
  expect_exact(loops().curves.gelu_tanh, [](double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  });
  expect_exact(loops().curves.silu, [](double x) { return x / (1 + std::exp(-x)); });
}

TEST(Loops, GeluAndSiluOfANaNAreNaN) {
  const float x = std::numeric_limits<float>::quiet_NaN(), one = 1;
  for (const Curve& curve : {loops().curves.gelu, loops().curves.gelu_tanh, loops().curves.silu}) {
    float y = 0, dx = 0;
    curve.value(&x, &y, 1);
    curve.gradient(&x, &one, &dx, 1);
    EXPECT_TRUE(std::isnan(y));
    EXPECT_TRUE(std::isnan(dx));
  }
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

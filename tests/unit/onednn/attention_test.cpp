// The loops of attention on every instruction set of this CPU, against sums in double.
#include "backends/onednn/loops/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backends/onednn/loops/loops.hpp"

namespace assay::onednn {
namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

float rounded(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}

// Floats, or the bf16 numbers that the loops with pairs take.
class Tensor {
 public:
  Tensor(std::int64_t elements, bool narrow)
      : values_(static_cast<std::size_t>(elements)), halves_(narrow ? values_.size() : 0) {}

  static Tensor random(std::int64_t elements, bool narrow, std::mt19937& source) {
    Tensor tensor(elements, narrow);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < tensor.values_.size(); ++i) {
      tensor.values_[i] = narrow ? rounded(normal(source)) : normal(source);
      if (narrow)
        tensor.halves_[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(tensor.values_[i]) >> 16);
    }
    return tensor;
  }
  void* data() { return halves_.empty() ? static_cast<void*>(values_.data()) : halves_.data(); }
  double at(std::int64_t i) const {
    const auto k = static_cast<std::size_t>(i);
    if (halves_.empty()) return static_cast<double>(values_[k]);
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(halves_[k]) << 16));
  }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<float> values_;
  std::vector<std::uint16_t> halves_;
};

using Sums = std::vector<double>;

double& element(Sums& sums, std::int64_t i) { return sums[static_cast<std::size_t>(i)]; }

// The largest error over the largest value.
void expect_near(const Tensor& found, const Sums& expected, double bound, const char* name) {
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(found.at(static_cast<std::int64_t>(i)) - expected[i]);
    error = std::max(error, std::isfinite(difference) ? difference : 1e30);
    largest = std::max(largest, std::abs(expected[i]));
  }
  EXPECT_LE(error, bound * largest) << name;
}

// All operands and results, and what they should be.
struct Trial {
  Trial(const AttentionLoops& loops_of, AttentionShape shape_of, bool masked)
      : loops(loops_of), s(shape_of), narrow(loops_of.pair == 2) {
    if (masked) {
      s.mask_sample = s.keys;
      for (std::int64_t i = 0; i < s.samples * s.keys; ++i)
        mask.push_back(source() % 4 == 0 ? hidden : static_cast<float>(source() % 7) / 4);
    }
  }
  std::int64_t of_queries() const { return s.samples * s.queries * s.heads * s.depth; }
  std::int64_t of_keys() const { return s.samples * s.keys * s.groups * s.depth; }

  void run() {
    const float* const given = mask.empty() ? nullptr : mask.data();
    std::vector<float> scratch(static_cast<std::size_t>(loops.forward_scratch(s)), std::nanf(""));
    // In two calls, as two threads would.
    const std::int64_t tasks = loops.forward_tasks(s);
    for (const std::int64_t half : {std::int64_t{0}, std::int64_t{1}}) {
      loops.forward({s, q.data(), k.data(), v.data(), given, y.data(), logsumexp.data()}, tasks * half / 2,
                    tasks * (half + 1) / 2, scratch.data());
    }
    scratch.assign(static_cast<std::size_t>(loops.backward_scratch(s)), std::nanf(""));
    loops.backward({s, q.data(), k.data(), v.data(), given, y.data(), logsumexp.data(), dy.data(), dq.data(),
                    dk.data(), dv.data()},
                   0, s.samples * s.groups, scratch.data());
  }

  void compare() {
    Sums y_of(y.size()), dq_of(q.size()), dk_of(k.size()), dv_of(k.size());
    for (std::int64_t n = 0; n < s.samples; ++n) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        for (std::int64_t i = 0; i < s.queries; ++i) add_query(n, h, i, y_of, dq_of, dk_of, dv_of);
      }
    }
    const double bound = narrow ? 0.02 : 4e-6;
    expect_near(y, y_of, bound, "y");
    expect_near(dq, dq_of, bound, "dq");
    expect_near(dk, dk_of, bound, "dk");
    expect_near(dv, dv_of, bound, "dv");
  }

  const AttentionLoops& loops;
  AttentionShape s;
  bool narrow;
  std::mt19937 source{7};
  std::vector<float> mask;
  Tensor q = Tensor::random(of_queries(), narrow, source), k = Tensor::random(of_keys(), narrow, source);
  Tensor v = Tensor::random(of_keys(), narrow, source), dy = Tensor::random(of_queries(), narrow, source);
  Tensor y{of_queries(), narrow}, dq{of_queries(), narrow}, dk{of_keys(), narrow}, dv{of_keys(), narrow};
  std::vector<float> logsumexp =
      std::vector<float>(static_cast<std::size_t>(s.samples * s.heads * s.queries));

 private:
  void add_query(std::int64_t n, std::int64_t h, std::int64_t i, Sums& y_of, Sums& dq_of, Sums& dk_of,
                 Sums& dv_of) const {
    const std::int64_t group = h / (s.heads / s.groups);
    const auto query = [&](std::int64_t d) { return ((n * s.queries + i) * s.heads + h) * s.depth + d; };
    const auto key = [&](std::int64_t j, std::int64_t d) {
      return ((n * s.keys + j) * s.groups + group) * s.depth + d;
    };
    Sums p(static_cast<std::size_t>(s.keys));
    double largest = static_cast<double>(hidden), sum = 0;
    for (std::int64_t j = 0; j < s.keys; ++j) {
      double score = 0;
      for (std::int64_t d = 0; d < s.depth; ++d) score += q.at(query(d)) * k.at(key(j, d));
      score *= static_cast<double>(s.scale);
      if (!mask.empty()) score += static_cast<double>(mask[static_cast<std::size_t>(n * s.keys + j)]);
      if (s.causal && j > i + s.keys - s.queries) score = static_cast<double>(hidden);
      element(p, j) = score;
      largest = std::max(largest, score);
    }
    if (largest == static_cast<double>(hidden)) {
      EXPECT_EQ(logsumexp[static_cast<std::size_t>((n * s.heads + h) * s.queries + i)], hidden);
      return;
    }
    for (double& score : p) {
      score = std::exp(score - largest);
      sum += score;
    }
    EXPECT_NEAR(logsumexp[static_cast<std::size_t>((n * s.heads + h) * s.queries + i)],
                largest + std::log(sum), 1e-5);
    for (double& score : p) score /= sum;
    double product = 0;
    for (std::int64_t d = 0; d < s.depth; ++d) {
      for (std::int64_t j = 0; j < s.keys; ++j) element(y_of, query(d)) += element(p, j) * v.at(key(j, d));
      product += element(y_of, query(d)) * dy.at(query(d));
    }
    for (std::int64_t j = 0; j < s.keys; ++j) {
      double along = 0;
      for (std::int64_t d = 0; d < s.depth; ++d) {
        along += dy.at(query(d)) * v.at(key(j, d));
        element(dv_of, key(j, d)) += element(p, j) * dy.at(query(d));
      }
      const double slope = element(p, j) * (along - product) * static_cast<double>(s.scale);
      for (std::int64_t d = 0; d < s.depth; ++d) {
        element(dq_of, query(d)) += slope * k.at(key(j, d));
        element(dk_of, key(j, d)) += slope * q.at(query(d));
      }
    }
  }
};

// All that this CPU can run, not only those that it chooses.
std::vector<const AttentionLoops*> all_loops() {
  std::vector<const AttentionLoops*> all{&attention_x86_64, &attention_x86_64_bf16};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.push_back(&attention_avx2);
#endif
  for (const bool narrow : {false, true}) {
    const AttentionLoops* best = &attention_loops(narrow);
    if (std::ranges::find(all, best) == all.end()) all.push_back(best);
  }
  return all;
}

AttentionShape shape(std::int64_t samples, std::int64_t queries, std::int64_t keys, std::int64_t heads,
                     std::int64_t groups, std::int64_t depth, bool causal) {
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(depth)));
  return {samples, queries, keys, heads, groups, depth, causal, scale, 0, 0, 0};
}

TEST(Attention, AgreesWithSumsInDouble) {
  const AttentionShape shapes[] = {shape(2, 5, 5, 2, 2, 8, false),      shape(2, 70, 70, 3, 1, 16, true),
                                   shape(1, 130, 301, 4, 2, 33, true),  shape(1, 301, 130, 2, 2, 7, true),
                                   shape(1, 129, 257, 2, 1, 64, false), shape(1, 64, 128, 1, 1, 80, false),
                                   shape(2, 1, 37, 2, 2, 3, false),     shape(1, 66, 66, 1, 1, 48, false),
                                   shape(1, 70, 140, 2, 1, 80, true)};
  for (const AttentionLoops* loops : all_loops()) {
    for (const AttentionShape& s : shapes) {
      for (const bool masked : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "pair " << loops->pair << ", keys " << s.keys << ", width "
                                          << s.depth << (masked ? ", masked" : ""));
        Trial trial(*loops, s, masked);
        trial.run();
        trial.compare();
      }
    }
  }
}

TEST(Attention, KeepsANaN) {
  for (const AttentionLoops* loops : all_loops()) {
    Trial trial(*loops, shape(1, 3, 40, 1, 1, 8, false), false);
    if (loops->pair == 2) {
      static_cast<std::uint16_t*>(trial.k.data())[8 * 20] = 0x7fc0;
    } else {
      static_cast<float*>(trial.k.data())[8 * 20] = std::nanf("");
    }
    trial.run();
    for (std::int64_t i = 0; i < 24; ++i) EXPECT_TRUE(std::isnan(trial.y.at(i))) << loops->pair;
  }
}

}  // namespace
}  // namespace assay::onednn

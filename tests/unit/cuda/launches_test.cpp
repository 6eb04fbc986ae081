// How many launches a step takes, and how many of them wait for one another: fusion and branches must not be lost unnoticed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/cuda/step_without_work.hpp"

namespace assay::cuda {
namespace {

// In small forms, attentions and embeddings are small, as those of a network of that name on its own batch.
using testing::small_form;

struct Bound {
  const char* workload;
  PrecisionKind precision;
  std::int64_t launches;  // of our kernels, in a step
  std::int64_t calls;     // of the libraries
  std::int64_t chain;     // launches and calls that wait for one another
};
void PrintTo(const Bound& bound, std::ostream* stream) {
  *stream << bound.workload << ' ' << to_string(bound.precision);
}

class Launches : public ::testing::TestWithParam<Bound> {};

TEST_P(Launches, AreNoMoreThanTheBound) {
  const auto& [workload, precision, launches, calls, chain] = GetParam();
  const auto kernels = kernels_of_a_step(small_form(workload), precision);
  const std::int64_t launched = sum_of(kernels, &KernelOfStep::launches),
                     called = sum_of(kernels, &KernelOfStep::calls), waiting = longest_chain(kernels);
  fmt::print("{} launches, {} calls, {} in the longest chain\n", launched, called, waiting);
  EXPECT_LE(launched, launches);
  EXPECT_LE(called, calls);
  EXPECT_LE(waiting, chain);
  EXPECT_GT(launched, 0);
  EXPECT_GT(called, 0);
}

INSTANTIATE_TEST_SUITE_P(Steps, Launches,
                         ::testing::Values(Bound{"lenet5", PrecisionKind::fp32, 20, 14, 22},
                                           Bound{"lenet5", PrecisionKind::bf16, 27, 14, 27},
                                           Bound{"resnet56", PrecisionKind::bf16, 22, 283, 233},
                                           Bound{"lstm", PrecisionKind::bf16, 18, 5, 19},
                                           Bound{"nanogpt", PrecisionKind::bf16, 64, 51, 95}));

bool waits_for(const std::vector<KernelOfStep>& kernels, std::size_t later, std::size_t earlier) {
  return std::ranges::any_of(kernels[later].needs, [&](std::size_t before) {
    return before == earlier || waits_for(kernels, before, earlier);
  });
}

// Two persistent kernels side by side might wait for ever.
TEST(Branches, OneLstmWaitsForTheOther) {
  Workload workload = find_workload("lstm");
  workload.network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
    x = b.embedding("embedding", x, 50, 8);
    const ValueId sum = b.add(b.lstm("first", x, 8, true), b.lstm("second", x, 8, true));
    return b.linear("fc", sum, classes);
  };
  const auto kernels = kernels_of_a_step(workload.build(2, {6}, 2), PrecisionKind::fp32);
  for (const char* op : {"lstm", "lstm_gradient"}) {
    std::vector<std::size_t> places;
    for (std::size_t k = 0; k < kernels.size(); ++k)
      if (kernels[k].op == op) places.push_back(k);
    ASSERT_EQ(places.size(), 2U);
    EXPECT_TRUE(waits_for(kernels, places[1], places[0])) << op;
  }
}

// A weight gradient delays nothing but the update.
TEST(Branches, AWeightGradientIsBesideTheRestOfTheBackwardPass) {
  const auto kernels = kernels_of_a_step(small_form("lenet5"), PrecisionKind::fp32);
  const auto place = [&](const std::string& node) {
    const auto found =
        std::ranges::find_if(kernels, [&](const KernelOfStep& k) { return k.nodes.front() == node; });
    return static_cast<std::size_t>(found - kernels.begin());
  };
  const std::size_t of_last = place("fc3.weight_gradient"), of_first = place("conv1.weight_gradient");
  ASSERT_LT(of_last, of_first);
  ASSERT_LT(of_first, kernels.size());
  EXPECT_FALSE(waits_for(kernels, of_first, of_last));
}

// Those of bf16 would make a narrow copy of each weight.
TEST(Inference, LaunchesNothingForItsWeights) {
  const Program mlp = small_form("mlp");
  const auto launches = [&](PrecisionKind precision) {
    return sum_of(kernels_of_a_step(mlp, precision, Task::infer), &KernelOfStep::launches);
  };
  constexpr std::int64_t images_and_logits = 2;
  EXPECT_LE(launches(PrecisionKind::bf16), launches(PrecisionKind::fp32) + images_and_logits);
}

}  // namespace
}  // namespace assay::cuda

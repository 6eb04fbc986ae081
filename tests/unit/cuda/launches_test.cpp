// How many launches a step takes: fusion must not be lost unnoticed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/cuda/step_without_work.hpp"

namespace assay::cuda {
namespace {

struct Bound {
  const char* workload;
  PrecisionKind precision;
  std::int64_t launches;  // of our kernels, in a step
  std::int64_t calls;     // of the libraries
};
void PrintTo(const Bound& bound, std::ostream* stream) {
  *stream << bound.workload << ' ' << to_string(bound.precision);
}

class Launches : public ::testing::TestWithParam<Bound> {};

TEST_P(Launches, AreNoMoreThanTheBound) {
  const auto& [workload, precision, launches, calls] = GetParam();
  const Work work = work_of_a_step(find_workload(workload), precision);
  const std::int64_t launched = work.launches(), called = work.calls;
  fmt::print("{} launches, {} calls\n", launched, called);
  EXPECT_LE(launched, launches);
  EXPECT_LE(called, calls);
  EXPECT_GT(launched, 0);
  EXPECT_GT(called, 0);
}

INSTANTIATE_TEST_SUITE_P(Steps, Launches,
                         ::testing::Values(Bound{"lenet5", PrecisionKind::fp32, 20, 14},
                                           Bound{"lenet5", PrecisionKind::bf16, 27, 14},
                                           Bound{"resnet56", PrecisionKind::bf16, 348, 173},
                                           Bound{"lstm", PrecisionKind::bf16, 18, 5},
                                           Bound{"nanogpt", PrecisionKind::bf16, 195, 103}));

// Those of bf16 would make a narrow copy of each weight.
TEST(Inference, LaunchesNothingForItsWeights) {
  const Workload& mlp = find_workload("mlp");
  const Work narrow = work_of_a_step(mlp, PrecisionKind::bf16, Task::infer);
  const Work wide = work_of_a_step(mlp, PrecisionKind::fp32, Task::infer);
  constexpr std::int64_t images_and_logits = 2;
  EXPECT_LE(narrow.launches(), wide.launches() + images_and_logits);
}

}  // namespace
}  // namespace assay::cuda

#include "harness/core/clock.hpp"

#include <chrono>

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(Clock, runs_forward_on_the_axis_of_steady_clock) {
  const std::int64_t before =
      std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  const std::int64_t now = now_ns();
  const std::int64_t after =
      std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  EXPECT_GE(now, before);
  EXPECT_LE(now, after);
}

TEST(Clock, knows_its_own_resolution_and_cost) {
  const ClockQuality quality = measure_clock();
  EXPECT_GT(quality.resolution_ns, 0);
  EXPECT_LT(quality.resolution_ns, 20'000'000);
  EXPECT_GT(quality.cost_ns, 0);
}

}  // namespace
}  // namespace assay

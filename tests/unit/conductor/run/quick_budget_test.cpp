#include "harness/conductor/run/quick_budget.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(QuickBudget, is_of_each_backend_and_its_rest_ends_at_a_deadline) {
  QuickBudget budget(0.05);
  EXPECT_FALSE(budget.spent("fast"));
  const auto before = QuickBudget::Clock::now();
  const auto first = budget.deadline("fast");
  ASSERT_TRUE(first);
  EXPECT_GE(first->at, before + std::chrono::milliseconds(50));
  {
    const QuickBudget::Stopwatch stopwatch(budget, "fast");
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  EXPECT_TRUE(budget.spent("fast"));
  EXPECT_GE(budget.used().at("fast"), 0.06);
  EXPECT_LE(budget.deadline("fast")->at, QuickBudget::Clock::now());
  EXPECT_FALSE(budget.spent("other")) << "each backend has its own";
}

TEST(QuickBudget, NeverEndsWithoutALimit) {
  QuickBudget budget(std::nullopt);
  {
    const QuickBudget::Stopwatch stopwatch(budget, "fast");
  }
  EXPECT_FALSE(budget.spent("fast"));
  EXPECT_FALSE(budget.deadline("fast"));
}

TEST(QuickBudget, EndsWithTheRunIfThatIsEarlier) {
  QuickBudget budget(1000), none(std::nullopt);
  const auto now = QuickBudget::Clock::now();
  EXPECT_EQ(budget.deadline("fast")->code, ReasonCode::quick_time_spent);
  budget.end_run_at(now + std::chrono::hours(1));
  EXPECT_EQ(budget.deadline("fast")->code, ReasonCode::quick_time_spent) << "the earlier one";
  for (QuickBudget* one : {&budget, &none}) {
    one->end_run_at(now + std::chrono::seconds(1));
    EXPECT_EQ(one->deadline("fast")->code, ReasonCode::max_time_spent);
    EXPECT_EQ(one->deadline("fast")->at, now + std::chrono::seconds(1));
  }
}

}  // namespace
}  // namespace assay

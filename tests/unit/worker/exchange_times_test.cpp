#include "harness/worker/exchange_times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace assay {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::chrono::milliseconds computing{20}, exchanging{10};

// One of several ranks whose step takes `computing`, and `exchanging` with the exchange.
class Rank final : public Executable, public GradientExchange {
 public:
  void set_state(std::span<const HostTensor>) override {}
  std::vector<HostTensor> state() override { return {}; }
  void stage(std::int64_t, const HostBatch&) override {}
  void step(std::int64_t slot, double learning_rate, std::int64_t step) override {
    std::this_thread::sleep_for(computing);
    if (enabled) run();
    slots.push_back(slot);
    rates.push_back(learning_rate);
    numbers.push_back(step);
    ++(enabled ? steps : local_steps);
  }
  void synchronize() override {}
  double loss() override { return 0; }
  std::vector<HostTensor> results() override { return {}; }
  void evaluate(const HostBatch&, float*) override {}
  std::int64_t agree(std::int64_t value) override { return first ? value : agreed(value); }
  GradientExchange* gradient_exchange() override { return this; }
  std::map<std::string, std::int64_t> memory() const override { return {}; }

  std::int64_t bytes() const override { return 4096; }
  void set_enabled(bool wanted) override { enabled = wanted; }
  void run() override { std::this_thread::sleep_for(exchanging); }

  bool enabled = true, first = true;
  int steps = 0, local_steps = 0;
  std::vector<std::int64_t> slots, numbers;
  std::vector<double> rates;

 private:
  // Of a rank 0 with 2 steps and 3 rounds; 0 is only a barrier.
  std::int64_t agreed(std::int64_t value) {
    if (value == 0) return 0;
    return ++asked_ == 1 ? 2 : 3;
  }
  int asked_ = 0;
};

TEST(ExchangeTimes, AreOfStepsWithAndWithoutIt) {
  Rank rank;
  const protocol::Exchanged found = exchange_times(rank);
  EXPECT_EQ(contradiction(found), "");
  EXPECT_EQ(found.gradient_bytes, 4096);
  EXPECT_GE(found.steps, 1);
  EXPECT_LE(found.steps, 4) << "0.1 s of steps of 30 ms or more";
  EXPECT_THAT(found.step_seconds, SizeIs(5));
  EXPECT_THAT(found.step_seconds, Each(Gt(0.029)));
  EXPECT_THAT(found.local_seconds, Each(Gt(0.019)));
  EXPECT_THAT(found.bare_seconds, Each(Gt(0.009)));
  EXPECT_EQ(rank.steps, 2 + 5 * found.steps);
  EXPECT_EQ(rank.local_steps, 2 + 5 * found.steps);
  EXPECT_TRUE(rank.enabled) << "as it was";
}

TEST(ExchangeTimes, KeepTheParametersAndNumberTheSteps) {
  Rank rank;
  exchange_times(rank);
  EXPECT_THAT(rank.rates, Each(0.0));
  EXPECT_THAT(rank.slots, Each(0));
  for (std::size_t i = 0; i < rank.numbers.size(); ++i)
    EXPECT_EQ(rank.numbers[i], static_cast<std::int64_t>(i) + 1);
}

TEST(ExchangeTimes, TakeAsManyStepsAsRank0) {
  Rank rank;
  rank.first = false;
  const protocol::Exchanged found = exchange_times(rank);
  EXPECT_EQ(found.steps, 2);
  EXPECT_THAT(found.bare_seconds, SizeIs(3));
}

class Alone final : public Executable {
 public:
  void set_state(std::span<const HostTensor>) override {}
  std::vector<HostTensor> state() override { return {}; }
  void stage(std::int64_t, const HostBatch&) override {}
  void step(std::int64_t, double, std::int64_t) override { ADD_FAILURE() << "a step"; }
  void synchronize() override {}
  double loss() override { return 0; }
  std::vector<HostTensor> results() override { return {}; }
  void evaluate(const HostBatch&, float*) override {}
  std::map<std::string, std::int64_t> memory() const override { return {}; }
};

TEST(ExchangeTimes, NeedAnExchange) {
  Alone alone;
  const protocol::Exchanged found = exchange_times(alone);
  EXPECT_EQ(contradiction(found), "");
  EXPECT_THAT(found.reason, HasSubstr("one rank"));
}

}  // namespace
}  // namespace assay

#include "harness/report/exchange_cost.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/report/invariants.hpp"

namespace assay {
namespace {

using protocol::Exchanged;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of the slower rank: steps of 9, 10, 12 ms; local steps of 7, 7, 8 ms; bare exchanges of 4, 5, 6 ms.
Fork two_ranks() {
  const Exchanged first{"", 4000, 10, {9e-3, 8e-3, 12e-3}, {5e-3, 7e-3, 8e-3}, {4e-3, 5e-3, 6e-3}};
  const Exchanged second{"", 4000, 10, {8e-3, 10e-3, 11e-3}, {7e-3, 6e-3, 7e-3}, {3e-3, 5e-3, 4e-3}};
  return {.blocks = {{.kind = BlockKind::warm_up, .steps = 2}, {.steps = 6}},
          .ranks = {{.rank = 0, .exchange = first}, {.rank = 1, .exchange = second}},
          .loopback_bytes = 160'000};
}

TEST(ExchangeCost, IsThatOfTheSlowestRankInEachRound) {
  const Fork fork = two_ranks();
  EXPECT_DOUBLE_EQ(*local_step_time(fork).value, 7e-3);
  EXPECT_DOUBLE_EQ(*bare_exchange_time(fork).value, 5e-3);
  EXPECT_NEAR(*exposed_exchange_time(fork).value, 3e-3, 1e-12) << "2, 3 and 4 ms";
  EXPECT_NEAR(*exchange_share(fork).value, 0.3, 1e-12);
  EXPECT_NEAR(*hidden_exchange_share(fork).value, 0.4, 1e-12);
  EXPECT_DOUBLE_EQ(*gradient_bytes(fork).value, 4000);
  EXPECT_DOUBLE_EQ(*wire_bytes(fork).value, 10'000) << "8 steps of 2 ranks";
}

TEST(ExchangeCost, MayBeLessThanNothingOrMoreThanAllOfIt) {
  Fork fork = two_ranks();
  for (RankRecord& rank : fork.ranks) rank.exchange->local_seconds = {20e-3, 20e-3, 20e-3};
  EXPECT_NEAR(*exposed_exchange_time(fork).value, -10e-3, 1e-12);
  EXPECT_LT(*exchange_share(fork).value, 0);
  EXPECT_NEAR(*hidden_exchange_share(fork).value, 3, 1e-12);
  for (RankRecord& rank : fork.ranks) rank.exchange->local_seconds = {1e-3, 1e-3, 1e-3};
  EXPECT_LT(*hidden_exchange_share(fork).value, 0) << "a step of 10 ms waits 9 ms for an exchange of 5 ms";
}

TEST(ExchangeCost, IsUnknownWithAReason) {
  const auto reason = [](const Fork& fork) {
    EXPECT_FALSE(exchange_share(fork).value);
    EXPECT_FALSE(gradient_bytes(fork).value);
    return exchange_share(fork).reason;
  };
  EXPECT_EQ(reason({}), "the cell has one rank");
  Fork fork = two_ranks();
  fork.ranks[1].exchange.reset();
  EXPECT_THAT(reason(fork), HasSubstr("--quick"));
  fork.ranks[1].exchange = Exchanged{.reason = "[exchange] why"};
  EXPECT_EQ(reason(fork), "[exchange] why");
  fork = two_ranks();
  fork.ranks[1].exchange->bare_seconds.pop_back();
  EXPECT_THAT(reason(fork), HasSubstr("the same rounds"));
}

TEST(WireBytes, NeedRanksStepsAndACount) {
  Fork fork = two_ranks();
  fork.loopback_bytes.reset();
  EXPECT_FALSE(wire_bytes(fork).value);
  fork = two_ranks();
  fork.blocks.clear();
  EXPECT_FALSE(wire_bytes(fork).value);
  fork = two_ranks();
  fork.ranks.clear();
  EXPECT_FALSE(wire_bytes(fork).value);
}

TEST(ExchangeInvariants, HoldTheTimesTogether) {
  const auto violations_of = [](const Exchanged& exchange) {
    Fork fork;
    fork.status = Status::ok;
    fork.ranks = {{.rank = 0}, {.rank = 1, .exchange = exchange}};
    Violations violations("fork");
    validate_fork(violations, fork);
    return violations.found();
  };
  const Exchanged good{"", 4, 1, {1.0}, {1.0}, {1.0}};
  EXPECT_THAT(violations_of(good), IsEmpty());
  EXPECT_THAT(violations_of({.reason = "why"}), IsEmpty());
  Exchanged wrong = good;
  wrong.step_seconds.push_back(1);
  EXPECT_THAT(violations_of(wrong), Contains(HasSubstr("rank 1: has times of its exchange")));
}

}  // namespace
}  // namespace assay

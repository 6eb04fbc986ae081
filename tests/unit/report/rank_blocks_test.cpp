#include "harness/report/rank_blocks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/report/invariants.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Block block(std::int64_t begin, std::int64_t end, double loss) {
  return {.steps = 4, .begin_ns = begin, .end_ns = end, .cpu_ns = 10, .loss = loss, .minor_faults = 1};
}

std::vector<RankRecord> two_records() {
  return {{.rank = 0, .cores = "0", .blocks = {block(100, 200, 1), block(300, 450, 3)}},
          {.rank = 1, .cores = "1", .blocks = {block(110, 220, 2), block(300, 440, 5)}}};
}

TEST(RankBlocks, TakeTheTimeOfTheSlowestRankAndTheMeanLoss) {
  const std::vector<Block> blocks = joined_blocks(two_records());
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].begin_ns, 110);
  EXPECT_EQ(blocks[0].end_ns, 220);
  EXPECT_EQ(blocks[0].loss, 1.5);
  EXPECT_EQ(blocks[0].cpu_ns, 20);
  EXPECT_EQ(blocks[0].minor_faults, 2);
  EXPECT_EQ(blocks[1].begin_ns, 300);
  EXPECT_EQ(blocks[1].end_ns, 450);
  EXPECT_EQ(blocks[1].loss, 4);
}

TEST(RankBlocks, OfSeveralMachinesAreOnTheClockOfTheFirst) {
  std::vector<RankRecord> ranks = two_records();
  constexpr std::int64_t day = 86'400'000'000'000;
  for (RankRecord& rank : ranks) rank.host = rank.rank == 0 ? "node1" : "node2";
  for (Block& block : ranks[1].blocks) block.begin_ns -= day, block.end_ns -= day;
  ranks[1].blocks[0].end_ns = 350 - day;  // 240 ns: longer than to the next block of the first rank
  const std::vector<Block> blocks = joined_blocks(ranks);
  EXPECT_EQ(blocks[0].begin_ns, 100);
  EXPECT_EQ(blocks[0].end_ns, 340);
  EXPECT_EQ(blocks[1].begin_ns, 340);
  EXPECT_EQ(blocks[1].end_ns, 490);
}

TEST(RankBlocks, HaveNoLossIfARankHasNone) {
  std::vector<RankRecord> ranks = two_records();
  ranks[1].blocks[0].loss.reset();
  EXPECT_FALSE(joined_blocks(ranks)[0].loss);
}

TEST(RankBlocks, AreRefusedIfTheRanksTookOtherSteps) {
  std::vector<RankRecord> ranks = two_records();
  EXPECT_THAT(unlike_blocks(ranks), IsEmpty());
  ranks[1].blocks[1].steps = 5;
  EXPECT_THAT(unlike_blocks(ranks), HasSubstr("block 1 of rank 1"));
  ranks[1].blocks.pop_back();
  EXPECT_THAT(unlike_blocks(ranks), HasSubstr("rank 1 has 1"));
}

TEST(RankImbalance, IsTheMedianOfTheSlowestOverTheMean) {
  Fork fork{.ranks = two_records()};
  for (RankRecord& rank : fork.ranks)
    for (Block& block : rank.blocks) block.kind = BlockKind::timed;
  fork.blocks = joined_blocks(fork.ranks);
  EXPECT_DOUBLE_EQ(rank_imbalance(fork).value(), (110 / 105.0 + 150 / 145.0) / 2);
  for (RankRecord& rank : fork.ranks) rank.blocks[0].kind = BlockKind::warm_up;
  fork.blocks = joined_blocks(fork.ranks);
  EXPECT_DOUBLE_EQ(rank_imbalance(fork).value(), 150 / 145.0) << "without the warm-up";
}

TEST(RankImbalance, NeedsRanksAndTimedBlocks) {
  Fork fork{.ranks = two_records()};
  for (RankRecord& rank : fork.ranks)
    for (Block& block : rank.blocks) block.kind = BlockKind::warm_up;
  fork.blocks = joined_blocks(fork.ranks);
  EXPECT_FALSE(rank_imbalance(fork));
  fork.ranks.clear();
  EXPECT_FALSE(rank_imbalance(fork));
}

TEST(RankBlocks, SumTheDisturbancesOverTheLongestWindow) {
  std::vector<RankRecord> ranks = two_records();
  EXPECT_FALSE(joined_disturbance(ranks));
  ranks[0].disturbance = {.processors = 1, .window_ns = 100, .own_ns = 90, .others_ns = 5, .steal_ns = 1};
  ranks[1].disturbance = {.processors = 2, .window_ns = 120, .own_ns = 80, .others_ns = 7, .steal_ns = 2};
  EXPECT_EQ(joined_disturbance(ranks),
            (Disturbance{.processors = 3, .window_ns = 120, .own_ns = 170, .others_ns = 12, .steal_ns = 3}));
}

std::vector<std::string> violations_of(const std::vector<RankRecord>& ranks,
                                       const std::vector<Block>& blocks) {
  Fork fork;
  fork.status = Status::ok;
  fork.blocks = blocks;
  fork.ranks = ranks;
  Violations violations("fork");
  validate_fork(violations, fork);
  return violations.found();
}

TEST(RankInvariants, HoldTheBlocksOfTheForkToThoseOfItsRanks) {
  const std::vector<RankRecord> ranks = two_records();
  std::vector<Block> blocks = joined_blocks(ranks);
  EXPECT_THAT(violations_of(ranks, blocks), IsEmpty());
  blocks[1].end_ns = 440;
  EXPECT_THAT(violations_of(ranks, blocks), Contains(HasSubstr("block 1 is not that of the slowest rank")));
  EXPECT_THAT(violations_of({ranks[0]}, ranks[0].blocks), Contains(HasSubstr("has one rank")));
  EXPECT_THAT(violations_of({ranks[1], ranks[0]}, blocks), Contains(HasSubstr("has the number 1")));
}

TEST(RankInvariants, HoldTheRecordsToTheAxis) {
  Report report = test::sample_report(6);
  report.cells[0].forks[2].ranks = two_records();
  EXPECT_THAT(invariant_violations(report),
              Contains(HasSubstr("has the records of 2 ranks, but the cell has 1")));
}

}  // namespace
}  // namespace assay

#include "harness/conductor/data/epoch_plan.hpp"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(EpochPlan, is_a_permutation_that_augmentation_does_not_change) {
  const auto plain = epoch_plan(1000, 3, 7);
  const auto varied = epoch_plan(1000, 3, 7, {4, true});
  ASSERT_EQ(plain.size(), 1000u);
  std::vector<bool> seen(1000);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(plain[i].as_is());
    EXPECT_EQ(plain[i].sample, varied[i].sample);
    seen.at(static_cast<std::size_t>(plain[i].sample)) = true;
  }
  EXPECT_THAT(seen, testing::Each(true));
  EXPECT_EQ(varied, epoch_plan(1000, 3, 7, {4, true})) << "the same for the same seed and epoch";
  EXPECT_NE(varied, epoch_plan(1000, 4, 7, {4, true}));
  EXPECT_NE(varied, epoch_plan(1000, 3, 8, {4, true}));
}

TEST(EpochPlan, draws_every_offset_and_both_sides_equally_often) {
  const auto rows = epoch_plan(81'000, 1, 1, {4, true});
  std::map<std::pair<int, int>, int> offsets;
  int flipped = 0;
  for (const PlanRow& row : rows) {
    ++offsets[{row.dx, row.dy}];
    flipped += row.flip;
  }
  EXPECT_EQ(offsets.size(), 81u) << "from -4 to 4 each way";
  for (const auto& [offset, count] : offsets) {
    EXPECT_LE(std::abs(offset.first), 4);
    EXPECT_NEAR(count, 1000, 160) << "five deviations";
  }
  EXPECT_NEAR(flipped, 40'500, 712);
}

TEST(EpochPlan, varies_only_what_is_requested) {
  for (const PlanRow& row : epoch_plan(100, 1, 1, {0, true})) EXPECT_TRUE(row.dx == 0 && row.dy == 0);
  for (const PlanRow& row : epoch_plan(100, 1, 1, {2, false})) EXPECT_EQ(row.flip, 0);
}

TEST(EpochPlan, ranks_share_each_whole_batch_in_the_order_of_its_rows) {
  const auto whole = epoch_plan(23, 1, 7);
  const auto first = rows_of_rank(whole, {6, 0, 2}), second = rows_of_rank(whole, {6, 1, 2});
  ASSERT_EQ(first.size(), 9u) << "three batches of 6 rows; 5 rows are dropped";
  ASSERT_EQ(second.size(), 9u);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(first[i], whole[i / 3 * 6 + i % 3]);
    EXPECT_EQ(second[i], whole[i / 3 * 6 + 3 + i % 3]);
  }
  EXPECT_EQ(rows_of_rank(whole, {6, 0, 1}), whole) << "one rank has them all";
}

}  // namespace
}  // namespace assay

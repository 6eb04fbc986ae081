#include "harness/conductor/run/shard.hpp"

#include <stdlib.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "tests/unit/conductor/run/planned_cells.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_shard(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// The variables of a task of a job array; they are removed at the end.
class ArrayTask {
 public:
  explicit ArrayTask(const std::map<std::string, std::string>& values) : values_(values) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~ArrayTask() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }
  ArrayTask(const ArrayTask&) = delete;
  ArrayTask& operator=(const ArrayTask&) = delete;

 private:
  std::map<std::string, std::string> values_;
};

std::map<std::string, std::string> task(int id, int count, int first, int last, int step = 1) {
  return {{"SLURM_ARRAY_TASK_ID", std::to_string(id)},
          {"SLURM_ARRAY_TASK_COUNT", std::to_string(count)},
          {"SLURM_ARRAY_TASK_MIN", std::to_string(first)},
          {"SLURM_ARRAY_TASK_MAX", std::to_string(last)},
          {"SLURM_ARRAY_TASK_STEP", std::to_string(step)}};
}

TEST(ParseShard, ReadsIndexAndCount) {
  EXPECT_EQ(parse_shard("1/1"), (Shard{1, 1}));
  EXPECT_EQ(parse_shard("4/4"), (Shard{4, 4}));
  for (const char* text :
       {"", "0/4", "5/4", "1", "1/", "/4", "1/4/4", "-1/4", "a/b", " 1/4", "1/4 ", "1/20001", "1/0"})
    EXPECT_THAT(refusal(text), HasSubstr("must be I/N")) << text;
}

TEST(ParseShard, TakesTheTaskOfAJobArray) {
  {
    const ArrayTask from_one(task(3, 4, 1, 4));
    EXPECT_EQ(parse_shard("slurm"), (Shard{3, 4}));
  }
  {
    const ArrayTask from_zero(task(0, 8, 0, 7));
    EXPECT_EQ(parse_shard("slurm"), (Shard{1, 8}));
  }
  const ArrayTask by_tens(task(30, 4, 10, 40, 10));
  EXPECT_EQ(parse_shard("slurm"), (Shard{3, 4}));
}

TEST(ParseShard, RefusesAnArrayThatDoesNotSayThePart) {
  EXPECT_THAT(refusal("slurm"), HasSubstr("SLURM_ARRAY_TASK_ID is not set"));
  {
    const ArrayTask repeated_alone(task(3, 1, 3, 3));
    EXPECT_THAT(refusal("slurm"), HasSubstr("use --shard I/N"));
  }
  {
    const ArrayTask with_gaps(task(7, 3, 1, 7));
    EXPECT_THAT(refusal("slurm"), HasSubstr("use --shard I/N"));
  }
  const std::map<std::string, std::string> word{{"SLURM_ARRAY_TASK_ID", "x"}};
  const ArrayTask not_a_number(word);
  EXPECT_THAT(refusal("slurm"), HasSubstr("SLURM_ARRAY_TASK_ID is 'x'"));
}

TEST(Shards, KeepComparedCellsTogether) {
  const std::vector<Cell> cells =
      planned_cells({{"mlp", 3}, {"lenet5", 3}, {"cnn", 3}, {"lstm", 3}, {"alexnet", 3}});
  for (const int count : {1, 2, 3, 4, 5}) {
    const std::vector<int> shards = shards_of(cells, count);
    std::map<std::string, std::set<int>> of_group;
    for (std::size_t i = 0; i < cells.size(); ++i) of_group[cells[i].group()].insert(shards[i]);
    for (const auto& [group, all] : of_group) EXPECT_EQ(all.size(), 1U) << group;
    EXPECT_EQ(std::set<int>(shards.begin(), shards.end()).size(), static_cast<std::size_t>(count))
        << "none is empty";
  }
}

TEST(Shards, ShareCellsEvenly) {
  // The group of six cells fills the first shard, and the next three groups the second.
  const std::vector<int> shards =
      shards_of(planned_cells({{"mlp", 6}, {"lenet5", 2}, {"cnn", 2}, {"lstm", 2}}), 2);
  EXPECT_THAT(shards, ElementsAre(1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2));
}

TEST(Shards, OfMoreThanTheGroupsAreRefused) {
  try {
    shards_of(planned_cells({{"mlp", 6}, {"lenet5", 2}}), 3);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("use at most 2 shards"));
  }
}

TEST(Shards, LeaveEachCellToOneOfThem) {
  const std::vector<Cell> cells = planned_cells({{"mlp", 3}, {"lenet5", 1}, {"cnn", 2}, {"lstm", 4}});
  std::vector<int> owners(cells.size(), 0);
  for (const int index : {1, 2, 3}) {
    std::vector<Cell> kept = cells;
    keep_shard(kept, {index, 3});
    for (std::size_t i = 0; i < kept.size(); ++i) {
      owners[i] += kept[i].runnable();
      EXPECT_EQ(kept[i].runnable(), kept[i].reason_code != ReasonCode::other_shard);
    }
  }
  EXPECT_THAT(owners, ::testing::Each(1));
}

}  // namespace
}  // namespace assay

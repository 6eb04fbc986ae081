#include "harness/conductor/run/rounds.hpp"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/report/fork_time.hpp"
#include "tests/unit/conductor/run/planned_cells.hpp"

namespace assay {
namespace {

Report empty_report(const std::vector<Cell>& cells) {
  Report report;
  for (const Cell& cell : cells) {
    CellReport row;
    row.id = cell.id;
    row.axes = cell.axes;
    row.status = Status::ok;
    row.equivalence.passed = true;
    report.cells.push_back(row);
  }
  return report;
}

Fork fork_of(int round, double step_seconds, bool disturbed = false) {
  Fork fork;
  fork.round = round;
  fork.status = Status::ok;
  Block block;
  block.steps = 10;
  block.end_ns = static_cast<std::int64_t>(1e10 * step_seconds);
  fork.blocks = {block};
  if (disturbed) fork.flags = {quality_flag::disturbed};
  return fork;
}

// Runs all rounds; `time` gives the seconds of a step of a cell in a round. Returns the rounds of each cell.
template <typename Time>
std::vector<int> run_rounds(const std::vector<Cell>& cells, const RunSettings& settings, const Time& time,
                            const std::set<int>& disturbed = {}) {
  Rounds rounds(cells, settings);
  Report report = empty_report(cells);
  std::vector<int> run(cells.size());
  for (auto forks = rounds.next(report); !forks.empty(); forks = rounds.next(report)) {
    for (const PlannedFork& fork : forks) {
      ++run[fork.cell];
      const bool hit = disturbed.contains(fork.round) && fork.cell == 0;
      report.cells[fork.cell].forks.push_back(fork_of(fork.round, time(fork.cell, fork.round), hit));
    }
    mark_disturbances(report.cells);
  }
  return run;
}

double noise(int round) { return 1 + 0.03 * ((round * 7) % 5 - 2); }

TEST(Rounds, InterleaveAndShuffleAlikeForASeed) {
  const auto made = planned_cells({{"mlp", 4}, {"lenet5", 4}});
  RunSettings settings;
  settings.forks = 5;
  settings.seed = 7;
  const auto all_forks = [&] {
    Rounds rounds(made, settings);
    const Report report = empty_report(made);
    std::vector<PlannedFork> forks;
    for (auto round = rounds.next(report); !round.empty(); round = rounds.next(report))
      forks.insert(forks.end(), round.begin(), round.end());
    return forks;
  };
  const auto forks = all_forks();
  ASSERT_EQ(forks.size(), 5 * made.size());
  std::set<std::vector<std::size_t>> orders;
  for (std::size_t first = 0; first < forks.size(); first += 4) {
    std::set<std::string> groups;
    std::set<std::size_t> members;
    std::vector<std::size_t> order;
    for (std::size_t i = first; i < first + 4; ++i) {
      EXPECT_EQ(forks[i].round, static_cast<int>(first / made.size()));
      groups.insert(made[forks[i].cell].group());
      members.insert(forks[i].cell);
      order.push_back(forks[i].cell);
    }
    EXPECT_EQ(groups.size(), 1U) << "the forks of a group are adjacent";
    EXPECT_EQ(members.size(), 4U) << "each cell once in a round";
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 3U) << "the order changes";
  const auto again = all_forks();
  EXPECT_TRUE(std::equal(forks.begin(), forks.end(), again.begin(), [](const auto& a, const auto& b) {
    return a.cell == b.cell && a.round == b.round;
  }));
}

TEST(Rounds, ReplaceDisturbedOnesForTheWholeGroup) {
  const auto cells = planned_cells({{"mlp", 2}, {"lenet5", 2}});
  RunSettings settings;
  settings.forks = 4;
  settings.spare_rounds = 2;
  const auto steady = [](std::size_t, int) { return 0.01; };
  // Cell 0 is disturbed: its group of two gets another round, the other group does not.
  EXPECT_THAT(run_rounds(cells, settings, steady, {1}), testing::ElementsAre(5, 5, 4, 4));
  EXPECT_THAT(run_rounds(cells, settings, steady, {0, 1, 2, 3}), testing::ElementsAre(6, 6, 4, 4));
  settings.spare_rounds = 0;
  EXPECT_THAT(run_rounds(cells, settings, steady, {1}), testing::ElementsAre(4, 4, 4, 4));
}

TEST(Rounds, EndWhenTheOrderIsClear) {
  const auto cells = planned_cells({{"mlp", 3}});
  RunSettings settings;
  settings.until = Until::clear;
  const auto apart = [](std::size_t cell, int round) {
    return (1.0 + static_cast<double>(cell)) * noise(round);
  };
  EXPECT_THAT(run_rounds(cells, settings, apart), testing::ElementsAre(6, 6, 6));
  EXPECT_THAT(run_rounds(cells, settings, apart, {2}), testing::ElementsAre(7, 7, 7));
}

TEST(Rounds, GoOnForThePairsThatAreNotClear) {
  const auto cells = planned_cells({{"mlp", 3}});
  RunSettings settings;
  settings.until = Until::clear;
  // Cells 0 and 1 change places by 10 % from round to round; cell 2 is far off.
  const auto close = [](std::size_t cell, int round) {
    if (cell == 2) return 5.0;
    return cell == 0 ? 1.0 : round % 2 == 0 ? 1.1 : 0.9;
  };
  EXPECT_THAT(run_rounds(cells, settings, close), testing::ElementsAre(25, 25, 6));
  // Within 2 % of each other is an answer, too.
  const auto alike = [](std::size_t cell, int round) {
    if (cell == 2) return 5.0;
    return cell == 0 ? 1.0 : round % 2 == 0 ? 1.01 : 0.99;
  };
  EXPECT_THAT(run_rounds(cells, settings, alike), testing::ElementsAre(6, 6, 6));
}

TEST(Rounds, ForeseeWhatIsLeft) {
  const auto cells = planned_cells({{"mlp", 2}});
  RunSettings settings;
  settings.forks = 3;
  Rounds rounds(cells, settings);
  EXPECT_EQ(rounds.foreseen().size(), 6U);
  rounds.next(empty_report(cells));
  EXPECT_EQ(rounds.foreseen().size(), 6U);
}

}  // namespace
}  // namespace assay

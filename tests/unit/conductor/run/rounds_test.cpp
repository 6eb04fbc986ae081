#include "harness/conductor/run/rounds.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/io/philox.hpp"
#include "harness/report/analysis.hpp"
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

// Runs all rounds that are missing in the report; `time` gives the seconds of a step of a cell in a round.
template <typename Time>
Rounds run_into(Report& report, const std::vector<Cell>& cells, const RunSettings& settings, const Time& time,
                const std::set<int>& disturbed = {}, int session = 0) {
  Rounds rounds(cells, settings, report);
  for (auto forks = rounds.next(report); !forks.empty(); forks = rounds.next(report))
    for (const PlannedFork& fork : forks) {
      const bool hit = disturbed.contains(fork.round) && fork.cell == 0;
      report.cells[fork.cell].forks.push_back(fork_of(fork.round, time(fork.cell, fork.round), hit));
      report.cells[fork.cell].forks.back().session = session;
    }
  return rounds;
}

std::vector<int> forks_in(const Report& report) {
  std::vector<int> forks;
  for (const CellReport& cell : report.cells) forks.push_back(static_cast<int>(cell.forks.size()));
  return forks;
}

// The rounds of each cell.
template <typename Time>
std::vector<int> run_rounds(const std::vector<Cell>& cells, const RunSettings& settings, const Time& time,
                            const std::set<int>& disturbed = {}) {
  Report report = empty_report(cells);
  run_into(report, cells, settings, time, disturbed);
  return forks_in(report);
}

std::set<int> first_rounds(int number) {
  std::set<int> rounds;
  for (int round = 0; round < number; ++round) rounds.insert(round);
  return rounds;
}

double noise(int round) { return 1 + 0.03 * ((round * 7) % 5 - 2); }

TEST(Rounds, InterleaveAndShuffleAlikeForASeed) {
  const auto made = planned_cells({{"mlp", 4}, {"lenet5", 4}});
  RunSettings settings;
  settings.forks = 5;
  settings.seed = 7;
  const auto all_forks = [&] {
    const Report report = empty_report(made);
    Rounds rounds(made, settings, report);
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

TEST(Rounds, ReplaceThoseThatDoNotCountForAPair) {
  const auto cells = planned_cells({{"mlp", 2}, {"lenet5", 2}});
  RunSettings settings;
  settings.forks = 4;
  settings.spare_rounds = 3;
  const auto steady = [](std::size_t, int) { return 0.01; };
  // Cell 0 is disturbed: its group of two gets another round, the other group does not.
  EXPECT_THAT(run_rounds(cells, settings, steady, {1}), testing::ElementsAre(5, 5, 4, 4));
  EXPECT_THAT(run_rounds(cells, settings, steady, {0, 1, 4}), testing::ElementsAre(7, 7, 4, 4));
  EXPECT_THAT(run_rounds(cells, settings, steady, first_rounds(9)), testing::ElementsAre(5, 5, 4, 4))
      << "a third of the spare ones if none counts";
  settings.spare_rounds = 0;
  EXPECT_THAT(run_rounds(cells, settings, steady, {1}), testing::ElementsAre(4, 4, 4, 4));
}

// A study compares a cell with one of another group, such as the same network with its framework's own loader.
TEST(Rounds, AreThoseOfBothCellsOfAPublishedRatio) {
  const auto cells = planned_cells({{"mlp", 2}, {"lenet5", 2}, {"cnn", 1}});
  RunSettings settings;
  settings.forks = 6;
  settings.spare_rounds = 3;
  const auto steady = [](std::size_t, int) { return 0.01; };
  const std::set<int> disturbed{1, 3};  // for cell 0
  Report report = empty_report(cells);
  run_into(report, cells, settings, steady, disturbed);
  EXPECT_EQ(shared_rounds(report.cells[0], report.cells[2]).counting, 4) << "nobody compares them";
  for (const std::size_t other : {2U, 3U}) {
    Published ratio;
    ratio.metric = "samples_per_second";
    ratio.to = cells[other].id;
    report.cells[0].published.push_back(ratio);
  }
  Report resumed = report;
  run_into(resumed, cells, settings, steady, {}, 1);
  Report compared = report;
  for (CellReport& row : compared.cells) row.forks.clear();
  run_into(compared, cells, settings, steady, disturbed);
  for (const Report* of : {&resumed, &compared}) {
    for (const std::size_t other : {1U, 2U, 3U})
      EXPECT_GE(shared_rounds(of->cells[0], of->cells[other]).counting, 6);
  }
  EXPECT_THAT(forks_in(compared), testing::ElementsAre(8, 8, 8, 8, 6));
}

TEST(Rounds, AreNotLostForOtherPairsByADisturbedFork) {
  const auto cells = planned_cells({{"mlp", 3}});
  RunSettings settings;
  settings.until = Until::clear;
  const auto apart = [](std::size_t cell, int) { return 1.0 + static_cast<double>(cell); };
  Report report = empty_report(cells);
  run_into(report, cells, settings, apart, {0, 1, 2});
  EXPECT_EQ(shared_rounds(report.cells[1], report.cells[2]).counting, 9);
  EXPECT_EQ(shared_rounds(report.cells[0], report.cells[2]).counting, 6);
}

TEST(Rounds, OfALaterSessionAreNewOnesForAllCellsOfTheGroup) {
  const auto cells = planned_cells({{"mlp", 3}});
  RunSettings settings;
  settings.forks = 6;
  const auto steady = [](std::size_t, int) { return 0.01; };
  Report report = empty_report(cells);
  run_into(report, cells, settings, steady);
  run_into(report, cells, settings, steady, {}, 1);
  EXPECT_THAT(forks_in(report), testing::ElementsAre(6, 6, 6)) << "nothing is missing";
  // A framework was set up later.
  report.cells[2].forks.clear();
  run_into(report, cells, settings, steady, {}, 1);
  EXPECT_THAT(forks_in(report), testing::ElementsAre(12, 12, 6));
  EXPECT_EQ(report.cells[2].forks.front().round, 6);
  EXPECT_EQ(shared_rounds(report.cells[2], report.cells[0]).counting, 6);
  // It was cut off within a round.
  Report cut = empty_report(cells);
  run_into(cut, cells, settings, steady);
  cut.cells[1].forks.resize(3);
  run_into(cut, cells, settings, steady, {}, 1);
  EXPECT_THAT(forks_in(cut), testing::ElementsAre(9, 6, 9));
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t b = 0; b < a; ++b) EXPECT_GE(shared_rounds(cut.cells[a], cut.cells[b]).counting, 6);
}

TEST(Rounds, OfAGroupThatNoSessionBeganAreTheFirst) {
  const auto cells = planned_cells({{"mlp", 2}, {"lenet5", 2}});
  RunSettings settings;
  settings.forks = 6;
  const auto steady = [](std::size_t, int) { return 0.01; };
  Report report = empty_report(cells);
  run_into(report, cells, settings, steady);
  for (const std::size_t cell : {2U, 3U}) report.cells[cell].forks.clear();
  run_into(report, cells, settings, steady, {}, 1);
  EXPECT_THAT(forks_in(report), testing::ElementsAre(6, 6, 6, 6));
  EXPECT_EQ(report.cells[2].forks.front().round, 0) << "it has the seeds of a run in one piece";
}

TEST(Rounds, EndForACellThatFails) {
  const auto cells = planned_cells({{"mlp", 2}});
  for (const Until until : {Until::forks, Until::clear}) {
    RunSettings settings;
    settings.until = until;
    settings.forks = 6;
    Report report = empty_report(cells);
    Rounds rounds(cells, settings, report);
    for (auto forks = rounds.next(report); !forks.empty(); forks = rounds.next(report))
      for (const PlannedFork& planned : forks) {
        if (planned.cell == 1 && report.cells[1].status != Status::ok) continue;  // the caller skips it
        report.cells[planned.cell].forks.push_back(fork_of(planned.round, 0.01));
        if (planned.cell == 0) continue;
        report.cells[1].status = report.cells[1].forks.back().status = Status::failed;
      }
    EXPECT_THAT(forks_in(report), testing::ElementsAre(6, 1));
  }
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

std::vector<HowEnded> hows(const std::vector<GroupEnd>& ends) {
  std::vector<HowEnded> all;
  for (const GroupEnd& end : ends) all.push_back(end.how);
  return all;
}

TEST(Rounds, SayHowUntilClearEnded) {
  const auto cells = planned_cells({{"mlp", 2}});
  RunSettings settings;
  settings.until = Until::clear;
  const auto how = [&](const auto& time, const std::set<int>& disturbed = {}) {
    Report report = empty_report(cells);
    const Rounds rounds = run_into(report, cells, settings, time, disturbed);
    return hows(rounds.ends(report, false)).at(0);
  };
  const auto apart = [](std::size_t cell, int) { return 1.0 + static_cast<double>(cell); };
  const auto alike = [](std::size_t cell, int round) {
    return 1 + 0.01 * (cell == 0) * (round % 2 ? 1 : -1);
  };
  const auto open = [](std::size_t cell, int round) { return 1 + 0.1 * (cell == 0) * (round % 2 ? 1 : -1); };
  EXPECT_EQ(how(apart), HowEnded::clear);
  EXPECT_EQ(how(alike), HowEnded::equal);
  EXPECT_EQ(how(open), HowEnded::rounds);
  EXPECT_EQ(how(apart, first_rounds(50)), HowEnded::disturbed);
  settings.until = Until::forks;
  Report report = empty_report(cells);
  EXPECT_THAT(run_into(report, cells, settings, apart).ends(report, false), testing::IsEmpty());
  settings.until = Until::clear;
  report = empty_report(cells);
  Rounds rounds(cells, settings, report);
  rounds.next(report);
  EXPECT_EQ(hows(rounds.ends(report, false)).at(0), HowEnded::time);
  EXPECT_EQ(hows(rounds.ends(report, true)).at(0), HowEnded::interrupted);
}

TEST(Rounds, GetTheirLooksOnAMachineThatOftenDisturbs) {
  const auto cells = planned_cells({{"mlp", 2}});
  RunSettings settings;
  settings.until = Until::clear;
  const auto apart = [](std::size_t cell, int) { return 1.0 + static_cast<double>(cell); };
  EXPECT_THAT(run_rounds(cells, settings, apart, {0, 2, 3, 5, 6, 8, 9, 11}), testing::ElementsAre(14, 14));
  EXPECT_THAT(run_rounds(cells, settings, apart, first_rounds(17)), testing::ElementsAre(23, 23));
  EXPECT_THAT(run_rounds(cells, settings, apart, first_rounds(1000)), testing::ElementsAre(24, 24));
}

// A level that all cells of a round have, and 2 % of noise.
struct Weather {
  double drift = 0;           // of each round
  double switches = 0;        // the size of a second level
  std::vector<double> truth;  // times of the cells
};

Report simulated(const std::vector<Cell>& cells, const Weather& weather, std::uint64_t seed,
                 Until until = Until::clear) {
  RunSettings settings;
  settings.until = until;
  settings.forks = 6;
  Philox noise(seed, "noise"), levels(seed, "levels");
  std::vector<double> level;
  bool high = false;
  const auto time = [&](std::size_t cell, int round) {
    while (static_cast<int>(level.size()) <= round) {
      if (levels.below(10) == 0) high = !high;
      level.push_back(std::exp(weather.drift * static_cast<double>(level.size())) *
                      (high ? 1 + weather.switches : 1));
    }
    return weather.truth[cell] * level[static_cast<std::size_t>(round)] * std::exp(0.02 * noise.normal());
  };
  Report report = empty_report(cells);
  run_into(report, cells, settings, time);
  return report;
}

TEST(Rounds, LeadToAnOrderThatTheMachinesLevelDoesNotChange) {
  const auto cells = planned_cells({{"mlp", 5}});
  const std::vector<double> truth{1, 1.01, 1.04, 1.08, 1.5};
  constexpr int tables = 60;
  for (const Weather& weather :
       {Weather{.truth = truth}, Weather{.drift = 0.01, .truth = truth},
        Weather{.switches = 0.1, .truth = truth}, Weather{.switches = 0.3, .truth = truth}}) {
    int slower_first = 0, hidden = 0;
    for (int table = 0; table < tables; ++table) {
      const Report report = simulated(cells, weather, static_cast<std::uint64_t>(table));
      const Analysis all = analyze(report);
      const std::vector<std::size_t>& order = all.groups.at(0).in_rank;
      bool wrong = false, hides = false;
      for (std::size_t i = 0; i < order.size(); ++i) {
        ASSERT_TRUE(all.cells[order[i]].rank) << "six rounds of each pair";
        for (std::size_t j = 0; j < i; ++j) {
          wrong = wrong || truth[order[j]] > 1.035 * truth[order[i]];
          const auto ratio = time_ratio(report.cells[order[i]], report.cells[order[j]]).value();
          const bool tie = all.cells[order[i]].rank == all.cells[order[j]].rank;
          hides = hides || (ratio.lower && (ratio.below_one() || (ratio.above_one() && tie)));
        }
      }
      slower_first += wrong;
      hidden += hides;
    }
    EXPECT_EQ(slower_first, 0) << "drift " << weather.drift << ", switches " << weather.switches;
    EXPECT_EQ(hidden, 0) << "drift " << weather.drift << ", switches " << weather.switches;
  }
}

// Of tables of equal cells.
struct ByChance {
  int apart = 0;    // two cells are
  int fastest = 0;  // one is called the fastest
};

ByChance of_equal_cells(std::size_t number, int tables, Until until) {
  const auto cells = planned_cells({{"mlp", number}});
  const Weather weather{.drift = 0.01, .truth = std::vector<double>(number, 1)};
  ByChance found;
  for (int table = 0; table < tables; ++table) {
    const Report report = simulated(cells, weather, static_cast<std::uint64_t>(1000 + table), until);
    const Analysis all = analyze(report);
    found.apart += std::ranges::any_of(all.cells, [](const AnalyzedCell& cell) { return cell.rank != 1; });
    found.fastest +=
        std::ranges::any_of(all.cells, [](const AnalyzedCell& cell) { return cell.last_rank == 1; });
  }
  return found;
}

// docs/measurements/order.md has these shares.
TEST(Rounds, SeldomSeparateEqualCells) {
  constexpr int tables = 200;
  for (const std::size_t number : {2U, 5U, 10U}) {
    // 3.1 % at the first look, and 0.4 % at each later one; more cells are only apart if they still are at the last one.
    const ByChance found = of_equal_cells(number, tables, Until::clear);
    EXPECT_LE(found.apart, tables * 47 / 1000) << number;
  }
}

TEST(Rounds, SeparateSomeOfManyEqualCellsAfterSix) {
  constexpr int tables = 400;
  const std::map<std::size_t, double> expected{{2, 0.03}, {5, 0.24}, {10, 0.63}};
  for (const auto& [number, share] : expected) {
    const ByChance found = of_equal_cells(number, tables, Until::forks);
    EXPECT_NEAR(found.apart, share * tables, 3 * std::sqrt(tables * share * (1 - share))) << number;
    if (number == 2)
      EXPECT_EQ(found.fastest, found.apart);
    else
      EXPECT_LE(found.fastest, 2) << number << ": k^-5";
  }
}

TEST(Rounds, ForeseeWhatIsLeft) {
  const auto cells = planned_cells({{"mlp", 2}});
  RunSettings settings;
  settings.forks = 3;
  const Report report = empty_report(cells);
  Rounds rounds(cells, settings, report);
  EXPECT_EQ(rounds.foreseen().size(), 6U);
  rounds.next(report);
  EXPECT_EQ(rounds.foreseen().size(), 6U);
}

}  // namespace
}  // namespace assay

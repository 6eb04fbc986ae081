// The places of cells.
#include "harness/report/ranking.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "harness/report/analysis.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;

// Rounds without a time are negative. A cell for each list.
std::vector<CellReport> cells_of(const std::vector<std::vector<double>>& seconds) {
  std::vector<CellReport> cells;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    CellReport& cell = cells.emplace_back(
        test::sample_cell("b" + std::to_string(i), "graph", 1, static_cast<int>(seconds[i].size())));
    for (std::size_t round = 0; round < seconds[i].size(); ++round)
      for (Block& block : cell.forks[round].blocks)
        block.end_ns = block.begin_ns + static_cast<std::int64_t>(50e9 * seconds[i][round]);
    std::erase_if(cell.forks,
                  [&](const Fork& fork) { return seconds[i][static_cast<std::size_t>(fork.round)] < 0; });
  }
  return cells;
}

Ranking ranked(const std::vector<CellReport>& cells) {
  std::vector<const CellReport*> pointers;
  for (const CellReport& cell : cells) pointers.push_back(&cell);
  return rank_by_pairs(pointers);
}

Places at(const Ranking& ranking, std::size_t cell) { return ranking.places.at(cell).value_or(Places{0, 0}); }

TEST(Ranking, SwapsCellsWhosePairsContradictTheirMedians) {
  // The machine was slow in the six rounds that the faster one has, and fast in twelve others.
  std::vector<double> fast(18, -1), slow(18, 1.0);
  for (std::size_t round = 0; round < 6; ++round) {
    fast[round] = 1.9;
    slow[round] = 2.0;
  }
  const std::vector<CellReport> cells = cells_of({slow, fast});
  EXPECT_GT(*ranked_time(cells[1]), *ranked_time(cells[0]));
  const Ranking ranking = ranked(cells);
  EXPECT_THAT(ranking.order, ElementsAre(1, 0));
  EXPECT_EQ(at(ranking, 1), (Places{1, 1}));
  EXPECT_EQ(at(ranking, 0), (Places{2, 2}));
}

TEST(Ranking, JudgesAllPairsAndNotOnlyNeighbors) {
  // Each is within the noise of its neighbor, and the first is clear of the third.
  std::vector<double> a, b, c;
  for (int round = 0; round < 6; ++round) {
    const double swing = round % 2 == 0 ? 0.03 : -0.03;
    a.push_back(1.00);
    b.push_back(1.01 + swing);
    c.push_back(1.02);
  }
  const Ranking ranking = ranked(cells_of({a, b, c}));
  EXPECT_EQ(at(ranking, 0), (Places{1, 2}));
  EXPECT_EQ(at(ranking, 1), (Places{1, 3}));
  EXPECT_EQ(at(ranking, 2), (Places{2, 3}));
}

TEST(Ranking, FollowsFromClearPairsWhereTwoCellsShareFewRounds) {
  // The first and the third share two rounds; both are clear of the second.
  std::vector<double> a(10, 1), b(10, 2), c(10, 3);
  for (std::size_t round = 6; round < 10; ++round) a[round] = -1;
  for (std::size_t round = 0; round < 4; ++round) c[round] = -1;
  const Ranking ranking = ranked(cells_of({c, a, b}));
  EXPECT_THAT(ranking.order, ElementsAre(1, 2, 0));
  EXPECT_EQ(at(ranking, 1), (Places{1, 1}));
  EXPECT_EQ(at(ranking, 2), (Places{2, 2}));
  EXPECT_EQ(at(ranking, 0), (Places{3, 3}));
}

TEST(Ranking, LeavesOutACellThatSharesFewRounds) {
  std::vector<double> late(6, -1);
  late[5] = 1.5;
  const Ranking ranking = ranked(cells_of({std::vector<double>(6, 1), late, std::vector<double>(6, 2)}));
  EXPECT_EQ(at(ranking, 0), (Places{1, 1}));
  EXPECT_EQ(at(ranking, 2), (Places{2, 2}));
  EXPECT_FALSE(ranking.places[1]);
  EXPECT_THAT(ranking.order, ElementsAre(0, 1, 2));
  const Ranking two = ranked(cells_of({std::vector<double>(5, 1), std::vector<double>(5, 2)}));
  EXPECT_FALSE(two.places[0] || two.places[1]) << "five rounds";
  EXPECT_EQ(at(ranked(cells_of({{1.0}})), 0), (Places{1, 1})) << "nothing to compare with";
}

TEST(Ranking, GivesAllPlacesToCellsThatBeatEachOtherInACircle) {
  std::vector<double> a, b, c;
  for (int round = 0; round < 18; ++round) {
    const bool first = round < 6, second = round >= 6 && round < 12;
    a.push_back(first ? 1.0 : second ? -1 : 1.2);
    b.push_back(first ? 1.1 : second ? 1.0 : -1);
    c.push_back(first ? -1 : 1.1);
  }
  const Ranking ranking = ranked(cells_of({a, b, c}));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(at(ranking, i), (Places{1, 3}));
}

}  // namespace
}  // namespace assay

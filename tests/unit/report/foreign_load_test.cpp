// Which forks other processes disturbed.
#include "harness/report/foreign_load.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "harness/report/fork_time.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

constexpr std::int64_t one_second = 1'000'000'000;

// Two cells; share(cell, round) of the processors' time is not theirs, not idle and not stolen.
using Share = std::function<double(std::size_t, int)>;
Report loaded(int rounds, const Share& share, std::int64_t window_ns = one_second) {
  Report report = test::sample_report(rounds);
  for (std::size_t cell = 0; cell < report.cells.size(); ++cell)
    for (Fork& fork : report.cells[cell].forks) {
      const double taken = share(cell, fork.round) * 2 * static_cast<double>(window_ns);
      // The resolution of the counters is taken off again.
      fork.disturbance = {.processors = 2,
                          .window_ns = window_ns,
                          .others_ns = static_cast<std::int64_t>(taken) + 20'000'000};
    }
  return report;
}

int disturbed(Report& report, std::size_t cell) {
  mark_disturbances(report.cells);
  return static_cast<int>(
      std::ranges::count_if(report.cells[cell].forks, [](const Fork& f) { return !counts(f); }));
}

TEST(ForeignLoad, IsNotWhatAProgramCostsInEveryRound) {
  // As MXNet's op/dot next to TensorFlow's: 5 to 9 % in 80 of 80 forks, and nothing.
  Report report =
      loaded(8, [](std::size_t cell, int round) { return cell == 0 ? 0.05 + 0.005 * round : 0.0; });
  EXPECT_EQ(disturbed(report, 0), 0);
  EXPECT_EQ(disturbed(report, 1), 0);
}

TEST(ForeignLoad, IsWhatAllCellsMeet) {
  for (const double load :
       {0.15, 0.5}) {  // a loop that is busy for 30 % or all of the time, on one of two processors
    Report report = loaded(6, [&](std::size_t cell, int) { return cell == 0 ? load : 0.8 * load; });
    EXPECT_EQ(disturbed(report, 0), 6);
    EXPECT_EQ(disturbed(report, 1), 6);
  }
}

TEST(ForeignLoad, IsFoundNextToWhatAProgramCosts) {
  Report report = loaded(
      8, [](std::size_t cell, int round) { return (cell == 0 ? 0.06 : 0.0) + (round == 3 ? 0.10 : 0.0); });
  EXPECT_EQ(disturbed(report, 0), 1);
  EXPECT_EQ(disturbed(report, 1), 1);
  EXPECT_FALSE(counts(report.cells[0].forks[3]));
  Report burst =
      loaded(8, [](std::size_t cell, int round) { return cell == 1 && round % 3 == 0 ? 0.10 : 0.0; });
  EXPECT_EQ(disturbed(burst, 1), 3) << "in three rounds of eight it met only one cell";
  EXPECT_EQ(disturbed(burst, 0), 0);
}

TEST(ForeignLoad, NeedsFourRoundsWithAnotherCellToKnowAProgram) {
  const Share share = [](std::size_t cell, int) { return cell == 0 ? 0.06 : 0.0; };
  Report three = loaded(3, share), four = loaded(4, share), alone = loaded(8, share),
         apart = loaded(8, share);
  EXPECT_EQ(disturbed(three, 0), 3);
  EXPECT_EQ(disturbed(four, 0), 0);
  alone.cells.resize(1);
  EXPECT_EQ(disturbed(alone, 0), 8);
  for (Fork& fork : apart.cells[1].forks) fork.session = 1;
  EXPECT_EQ(disturbed(apart, 0), 8) << "rounds of another session";
}

TEST(ForeignLoad, IsAtMostWhatOtherProcessesUsed) {
  // A single cell, or two modes of one framework, whose threads wake each other all the time.
  Report report = loaded(8, [](std::size_t, int) { return 0.06; });
  for (CellReport& cell : report.cells)
    for (Fork& fork : cell.forks) fork.disturbance->seen_ns = fork.round == 2 ? one_second : 40'000'000;
  EXPECT_EQ(disturbed(report, 0), 1);
  EXPECT_EQ(disturbed(report, 1), 1);
  report.cells[0].forks[5].disturbance->seen_ns.reset();
  EXPECT_EQ(disturbed(report, 0), 2) << "in a container others may be hidden";
}

TEST(ForeignLoad, IsNotHiddenByACellThatIsTooShortToShowIt) {
  Report report = loaded(6, [](std::size_t, int) { return 0.15; });
  for (Fork& fork : report.cells[1].forks) fork.disturbance = {.processors = 2, .window_ns = 50'000'000};
  EXPECT_EQ(disturbed(report, 0), 6);
}

TEST(ForeignLoad, KeepsTheFlagsOfForksWithoutARecord) {
  Report report = test::sample_report(6);
  report.cells[0].forks[2].flags = {quality_flag::disturbed};
  report.cells[0].forks[3].flags = {quality_flag::uncovered};
  EXPECT_EQ(disturbed(report, 0), 2);
}

}  // namespace
}  // namespace assay

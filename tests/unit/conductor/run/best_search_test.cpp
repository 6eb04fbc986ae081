#include "harness/conductor/run/best_search.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/run/cell_report.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

using ::testing::Contains;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr double unit = 1e-3;  // seconds of a step

Fork timed_fork(int round, double step_seconds) {
  Fork made;
  made.round = round;
  made.status = Status::ok;
  made.blocks = {{.kind = BlockKind::timed, .steps = 1, .end_ns = std::llround(1e9 * step_seconds)}};
  return made;
}

// A search whose forks are drawn instead of measured.
class Simulation {
 public:
  using Draw = std::function<Fork(std::size_t candidate, int round)>;

  Simulation(std::size_t candidates, Draw draw, std::uint64_t seed = 1, bool quick = false)
      : draw_(std::move(draw)) {
    for (std::size_t i = 0; i < candidates; ++i) {
      Cell cell;
      cell.candidate = true;
      cell.axes.workload = "mlp";
      cell.axes.backend = "framework";
      cell.axes.mode = "mode" + std::to_string(i);
      cells_.push_back(std::move(cell));
      CellReport row;
      row.status = Status::interrupted;
      report.cells.push_back(std::move(row));
      all_.push_back(i);
    }
    settings_.seed = seed;
    settings_.quick = quick;
    run();
  }
  std::size_t winner() const { return in_order(all_, report).front(); }
  // The candidates that a note would call slower than the chosen one.
  std::vector<std::size_t> noted() const {
    const std::vector<std::size_t> order = in_order(all_, report);
    const auto ratios = ratios_to_first(order, report);
    std::vector<std::size_t> found;
    for (std::size_t n = 0; n < order.size(); ++n)
      if (ratios[n] && ratios[n]->lower && *ratios[n]->lower > 1) found.push_back(order[n]);
    return found;
  }
  std::size_t forks() const { return planned.size(); }

  Report report;
  std::vector<PlannedFork> planned;

 private:
  void run() {
    BestSearch search(cells_, settings_);
    for (auto forks = search.next(report); !forks.empty(); forks = search.next(report)) {
      ASSERT_LT(planned.size(), 1000U) << "the search does not end";
      for (const PlannedFork& fork : forks) {
        planned.push_back(fork);
        report.cells[fork.cell].forks.push_back(draw_(fork.cell, fork.round));
      }
    }
  }

  Draw draw_;
  std::vector<Cell> cells_;
  std::vector<std::size_t> all_;
  RunSettings settings_;
};

// A heavy tail with the same standard deviation: one fork in twenty is three times as far off.
double heavy(Philox& random) {
  const double scale = random.uniform_double() < 0.05 ? 3 : 1;
  return scale * random.normal() / std::sqrt(0.95 + 0.05 * 9);
}

struct Rates {
  double chosen = 0, falsely_noted = 0;
};

// `speeds`: the time of each mode. Every fork has noise of its own, and every round a drift that all its forks share.
Rates simulate(const std::vector<double>& speeds, const std::vector<double>& noise,
               const std::function<double(Philox&)>& draw) {
  constexpr int runs = 400;
  const std::size_t fastest =
      static_cast<std::size_t>(std::distance(speeds.begin(), std::min_element(speeds.begin(), speeds.end())));
  int chosen = 0, falsely_noted = 0;
  for (int run = 0; run < runs; ++run) {
    Philox random(static_cast<std::uint64_t>(run), "best");
    std::map<int, double> drift;
    const Simulation search(speeds.size(), [&](std::size_t candidate, int round) {
      if (!drift.contains(round)) drift[round] = 0.05 * random.normal();
      return timed_fork(round,
                        unit * speeds[candidate] * std::exp(drift[round] + noise[candidate] * draw(random)));
    });
    if (search.winner() == fastest) ++chosen;
    bool is_false = false;
    for (const std::size_t other : search.noted())
      is_false = is_false || speeds[other] <= speeds[search.winner()];
    if (is_false) ++falsely_noted;
  }
  return {chosen / static_cast<double>(runs), falsely_noted / static_cast<double>(runs)};
}

double normal(Philox& random) { return random.normal(); }

// With one fork of each, a mode that is 5 % faster than four others is chosen in 89, 50 and 33 % of the searches.
TEST(BestSearch, ChoosesTheFasterModeMoreOftenThanOneForkDoes) {
  const std::vector<double> speeds{1, 1, 0.95, 1, 1};
  const auto chosen = [&](double noise) { return simulate(speeds, std::vector(5, noise), normal).chosen; };
  EXPECT_GT(chosen(0.02), 0.99);
  EXPECT_GT(chosen(0.05), 0.80);
  EXPECT_GT(chosen(0.10), 0.50);
}

TEST(BestSearch, NotesNothingFalseOfEqualModes) {
  for (const std::size_t modes : {2U, 5U}) {
    const std::vector<double> speeds(modes, 1), noise(modes, 0.05);
    EXPECT_LE(simulate(speeds, noise, normal).falsely_noted, 0.05) << modes;
    EXPECT_LE(simulate(speeds, noise, heavy).falsely_noted, 0.05) << modes;
  }
}

TEST(BestSearch, NotesNothingFalseIfOneModeScattersMore) {
  EXPECT_LE(simulate(std::vector<double>(5, 1), {0.02, 0.02, 0.10, 0.02, 0.02}, normal).falsely_noted, 0.05);
}

TEST(BestSearch, HasThreeRoundsOfAllAndSixMoreOfTheTwoFastest) {
  const std::vector<double> speeds{1.2, 1, 1.3, 1.1};
  const Simulation search(4, [&](std::size_t i, int round) { return timed_fork(round, unit * speeds[i]); });
  EXPECT_THAT(search.report.cells[0].forks, SizeIs(3));
  EXPECT_THAT(search.report.cells[1].forks, SizeIs(9));
  EXPECT_THAT(search.report.cells[2].forks, SizeIs(3));
  EXPECT_THAT(search.report.cells[3].forks, SizeIs(9));
  EXPECT_EQ(search.winner(), 1U);
  std::vector<std::size_t> first, second;
  for (std::size_t n = 0; n < 4; ++n) first.push_back(search.planned[n].cell);
  for (std::size_t n = 4; n < 8; ++n) second.push_back(search.planned[n].cell);
  EXPECT_THAT(first, UnorderedElementsAre(0, 1, 2, 3)) << "a round has each once";
  EXPECT_THAT(second, UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_NE(first, second) << "rounds are shuffled";
}

TEST(BestSearch, DropsAModeThatIsFarSlowerAfterTwoRounds) {
  const std::vector<double> speeds{1, 5, 1.1};
  const Simulation search(3, [&](std::size_t i, int round) { return timed_fork(round, unit * speeds[i]); });
  EXPECT_THAT(search.report.cells[1].forks, SizeIs(2));
  EXPECT_THAT(search.noted(), Contains(1));
}

TEST(BestSearch, OneSlowForkDropsNobody) {
  const Simulation search(3, [&](std::size_t i, int round) {
    return timed_fork(round, unit * (i == 0 && round == 0 ? 9 : 1 + 0.1 * static_cast<double>(i)));
  });
  EXPECT_EQ(search.winner(), 0U);
}

TEST(BestSearch, ADisturbedForkIsReplacedByAnotherRoundOfAll) {
  const Simulation search(2, [&](std::size_t i, int round) {
    Fork fork = timed_fork(round, unit * (1 + 0.1 * static_cast<double>(i)));
    if (i == 0 && round == 1) fork.flags = {quality_flag::disturbed};
    return fork;
  });
  EXPECT_THAT(search.report.cells[0].forks, SizeIs(10));
  EXPECT_THAT(search.report.cells[1].forks, SizeIs(10));
  const Simulation busy(2, [&](std::size_t, int round) {
    Fork fork = timed_fork(round, unit);
    fork.flags = {quality_flag::disturbed};
    return fork;
  });
  EXPECT_EQ(busy.forks(), 2U * (3 + 2 + 6 + 2)) << "a busy machine has an end";
}

TEST(BestSearch, AWrongFinalistIsReplacedByTheNextOne) {
  const std::vector<double> speeds{1, 1.1, 1.2};
  const Simulation search(3, [&](std::size_t i, int round) {
    Fork fork = timed_fork(round, unit * speeds[i]);
    if (i == 0 && round == 4) fork.status = Status::wrong_result;
    return fork;
  });
  EXPECT_EQ(search.winner(), 1U);
  EXPECT_THAT(search.report.cells[2].forks, SizeIs(3 + 6)) << "the third had a final, too";
}

TEST(BestSearch, AQuickSearchHasOneForkOfEach) {
  const Simulation search(
      3,
      [](std::size_t i, int round) { return timed_fork(round, unit * (1 + 0.1 * static_cast<double>(i))); },
      1, true);
  EXPECT_EQ(search.forks(), 3U);
  EXPECT_EQ(search.winner(), 0U);
}

TEST(BestSearch, ASingleCandidateHasOneFork) {
  EXPECT_EQ(Simulation(1, [](std::size_t, int round) { return timed_fork(round, unit); }).forks(), 1U);
}

}  // namespace
}  // namespace assay

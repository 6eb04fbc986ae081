// A short run of what scripts/lab/simulate-gate does at length: what the gate promises, on noise of real forks;
// and whether the replay works as described, on made recordings.
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/compare/looks.hpp"
#include "harness/conductor/run/rounds.hpp"
#include "harness/core/error.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/axes_json.hpp"
#include "harness/report/fork_time.hpp"
#include "tests/simulation/made_runs.hpp"
#include "tests/simulation/replay.hpp"
#include "tests/temporary_folder.hpp"

namespace assay::simulation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<Recording>& noise() {
  static const std::vector<Recording> all = read_noise(ASSAY_NOISE);
  return all;
}

TEST(Simulation, has_noise_of_every_kind_that_was_recorded_on_purpose) {
  std::set<std::string> kinds;
  for (const Recording& recording : noise()) {
    kinds.insert(recording.kind);
    EXPECT_GE(recording.rounds(), 40) << recording.name;
  }
  for (const char* kind : {"quiet", "drift", "bursts", "bimodal", "tails"})
    EXPECT_TRUE(kinds.contains(kind)) << kind;
}

// What the gate promises, with 2 % between forks, 1 % between runs and five baselines.
class Promise : public ::testing::TestWithParam<int> {
 protected:
  static constexpr int comparisons = 200;
  MadeDesign design_{.cells = GetParam()};
};

TEST_P(Promise, UnchangedCodeIsGreen) {
  const Outcomes found = outcomes_of(design_, comparisons, 1);
  EXPECT_GE(100 * found.green, 95 * comparisons);
  EXPECT_LT(100 * found.slower, 5 * comparisons);
}

TEST_P(Promise, TenPercentInOneCellAreFound) {
  design_.change = 0.10;
  EXPECT_GE(100 * outcomes_of(design_, comparisons, 2).found, 80 * comparisons);
}

TEST_P(Promise, OneBaselineGivesFewAlarms) {
  design_.baselines = 1;
  EXPECT_LT(100 * outcomes_of(design_, comparisons, 3).slower, 5 * comparisons);
}

INSTANTIATE_TEST_SUITE_P(Cells, Promise, ::testing::Values(1, 5, 12, 20, 50));

TEST(Simulation, AShiftOfAllCellsIsNoRegressionOfEach) {
  MadeDesign design{.cells = 12, .noise = {.common = 0.03}};
  EXPECT_LT(100 * outcomes_of(design, 200, 4).slower, 5 * 200);
  design.all = 0.20;
  const Outcomes slower = outcomes_of(design, 200, 5);
  EXPECT_GE(100 * slower.undecided, 90 * 200) << "it is not green either";
}

TEST(Simulation, HeavyTailsGiveFewAlarms) {
  for (const int cells : {1, 12}) {
    const MadeDesign design{.cells = cells, .noise = {.heavy = true}};
    EXPECT_LT(100 * outcomes_of(design, 200, 6).slower, 5 * 200) << cells;
  }
}

TEST(Simulation, AMachineThatChangesInMidRunGivesFewAlarms) {
  for (const int cells : {1, 5, 12}) {
    MadeDesign design{.cells = cells, .noise = {.changing = 0.3}};
    EXPECT_LT(100 * outcomes_of(design, 200, 7).slower, 5 * 200) << cells;
    design.baselines = 1;
    EXPECT_LT(100 * outcomes_of(design, 200, 7).slower, 5 * 200) << cells << " cells, one baseline";
  }
}

TEST(Simulation, CellsWhoseRunsDifferByMoreGiveFewAlarms) {
  for (const int cells : {12, 20}) {
    const MadeDesign design{.cells = cells, .noise = {.uneven = 1.0 / 3}};
    EXPECT_LT(100 * outcomes_of(design, 200, 9).slower, 5 * 200) << cells;
  }
}

const Recording& recorded(const std::string& name) {
  const auto found = std::ranges::find(noise(), name, &Recording::name);
  if (found == noise().end()) throw Error("no recording is " + name);
  return *found;
}

// 3.4 to 3.8 % between forks.
TEST(Simulation, TheQuietRecordingKeepsThePromise) {
  const auto runs = runs_of(recorded("quiet"), {});
  int all = 0, alarms = 0, green = 0, found = 0;
  for (const Contest& contest : contests(runs, 5)) {
    ++all;
    const Comparison unchanged = compared(contest, {});
    alarms += unchanged.count(Verdict::slower) > 0;
    green += unchanged.count(Verdict::inconclusive) == 0;
    for (const std::size_t cell : {0, 1}) found += shows(contest, {}, cell, 0.10);
  }
  ASSERT_GE(all, 30);
  EXPECT_LT(100 * alarms, 5 * all);
  EXPECT_GE(100 * green, 55 * all);
  EXPECT_GE(100 * found, 95 * 2 * all);
}

// Of a real machine, each cell by itself.
TEST(Simulation, SteadyCellsOfARecordingKeepThePromise) {
  const auto runs = runs_of(recorded("fifty"), {});
  for (const auto by : {ChosenBy::other_runs, ChosenBy::all_runs}) {
    int all = 0, alarms = 0, green = 0, found = 0;
    for (const Contest& contest : contests(runs, 5))
      for (const std::size_t cell : steady_cells(choosing_runs(runs, contest, by))) {
        ++all;
        const Comparison unchanged = compared(contest, {}, {cell});
        alarms += unchanged.count(Verdict::slower);
        green += unchanged.count(Verdict::inconclusive) == 0;
        found += shows(contest, {cell}, 0, 0.10);
      }
    ASSERT_GE(all, 50);
    EXPECT_LT(100 * alarms, 5 * all);
    EXPECT_GE(100 * found, 80 * all);
    EXPECT_GE(100 * green, (by == ChosenBy::all_runs ? 95 : 75) * all) << "a cell is not always steady";
  }
}

TEST(Simulation, FiftySteadyCellsGiveFewAlarmsAndShowAChange) {
  const auto runs = runs_of(recorded("fifty"), {});
  Philox lot(1, "fifty steady cells");
  int green = 0, alarms = 0, found = 0;
  constexpr int all = 20;
  for (int draw = 0; draw < all; ++draw) {
    const auto mixed = recombined(runs, 5, 50, ChosenBy::all_runs, lot);
    const Contest contest = contests(mixed, 5).at(0);
    const Comparison unchanged = compared(contest, {});
    alarms += unchanged.count(Verdict::slower) > 0;
    green += unchanged.count(Verdict::slower) + unchanged.count(Verdict::inconclusive) == 0;
    found += shows(contest, {}, 0, 0.10);
  }
  EXPECT_LE(alarms, 1);
  EXPECT_GE(found, 16);
  EXPECT_GE(green, 10)
      << "not 95 %: each cell's runs are in another order, so they share no change of the machine";
}

TEST(Simulation, ab_cries_no_wolf_on_any_recording) {
  int alarms = 0, all = 0;
  for (const Recording& recording : noise()) {
    Philox lot(8, recording.name);
    for (int draw = 0; draw < 100; ++draw)
      for (const CellVerdict& cell : by_ab(recording.sessions.front(), {}, 0, lot).cells) {
        ++all;
        alarms += cell.verdict == Verdict::slower;
      }
  }
  EXPECT_LE(alarms, all / 1000) << "fewer than one comparison of 20 cells in fifty";
}

// Times by session, round and cell, in seconds. Cells differ in the backend: they are one group.
using Times = std::function<double(int, int, int)>;
Recording made(int sessions, int rounds, int cells, const Times& times) {
  Recording recording;
  recording.name = recording.kind = "made";
  for (int s = 0; s < sessions; ++s) {
    Session& session = recording.sessions.emplace_back();
    for (int c = 0; c < cells; ++c) {
      CellReport& cell = session.cells.emplace_back();
      cell.axes = {.workload = "mlp",
                   .backend = "backend" + std::to_string(c),
                   .mode = "graph",
                   .batch = 32,
                   .dataset = "synthetic",
                   .optimizer = "adam",
                   .measure = "steps"};
      cell.id = cell_id(cell.axes);
      cell.status = Status::ok;
      for (int r = 0; r < rounds; ++r) {
        Fork& fork = cell.forks.emplace_back();
        fork.round = r;
        fork.status = Status::ok;
        const auto length = static_cast<std::int64_t>(std::llround(1e9 * times(s, r, c)));
        fork.blocks = {{.steps = 1, .begin_ns = 0, .end_ns = length},
                       {.steps = 1, .begin_ns = length, .end_ns = 2 * length}};
      }
    }
  }
  return recording;
}

double numbered(int session, int round, int cell) {
  return 1e-3 * (1 + session) + 1e-6 * round + 1e-8 * cell;
}

// Nanoseconds of every fork, which numbered() makes unique.
std::multiset<std::int64_t> forks_in(const std::vector<Report>& runs) {
  std::multiset<std::int64_t> found;
  for (const Report& run : runs)
    for (const CellReport& cell : run.cells)
      for (const Fork& fork : cell.forks) found.insert(fork.blocks.front().end_ns);
  return found;
}

TEST(Replay, IsMadeAsTheProgramMeasures) {
  const Design design;
  EXPECT_EQ(design.forks, 6) << "the tables of docs/measurements/gate.md are to be made again";
  EXPECT_EQ(design.baselines, 5);
  EXPECT_EQ(design.confidence, 0.95);
  EXPECT_EQ(design.threshold, 0.05);
}

TEST(Replay, UsesEachForkInOneRun) {
  for (const int sessions : {1, 2, 5}) {
    const auto runs = runs_of(made(sessions, 31, 3, numbered), {});
    EXPECT_EQ(runs.size(), 5U * static_cast<std::size_t>(sessions));
    const auto forks = forks_in(runs);
    for (const std::int64_t fork : forks) EXPECT_EQ(forks.count(fork), 1U);
  }
  EXPECT_EQ(runs_of(made(8, 7, 3, numbered), {}).size(), 8U) << "a short session is one run";
}

TEST(Replay, ComparesARunWithThoseBeforeIt) {
  const auto runs = runs_of(made(8, 6, 7, numbered), {});
  const auto found = contests(runs, 5);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[1].bases.front(), &runs[1]);
  EXPECT_EQ(found[1].current, &runs[6]);
  const Comparison all = compared(found[0], {});
  EXPECT_EQ(all.compared, 7);
  EXPECT_EQ(all.baselines, 5);
  EXPECT_DOUBLE_EQ(all.cell_confidence, 1 - 0.05 / 7);
  EXPECT_EQ(compared(found[0], {}, {2}).compared, 1);
}

// A run of one cell. The host moves each fork with this probability, which then takes half as long again.
Report moved_run(double probability, double factor, Philox& lot) {
  const double run = 0.01 * lot.normal();
  std::vector<bool> moved;
  Recording recording = made(1, 6, 1, [&](int, int, int) {
    moved.push_back(lot.uniform_double() < probability);
    return 1e-3 * factor * (moved.back() ? 1.5 : 1) * std::exp(run + 0.02 * lot.normal());
  });
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const CoreReading usual{1.0, 50}, shared{2.0, 20};
    recording.sessions[0].cells[0].forks[i].placement =
        CorePlacement{.before = usual, .after = moved[i] ? shared : usual};
  }
  return runs_of(recording, {}).at(0);
}

// Shares of 40 comparisons with five baselines.
struct Shares {
  double slower = 0, faster = 0, found = 0;  // found: +10 %
};
Shares of_moved_runs(double in_baselines, double in_new_run) {
  constexpr int comparisons = 40;
  Philox lot(11, "moved runs");
  Shares shares;
  for (int i = 0; i < comparisons; ++i) {
    std::vector<Report> runs;
    for (int run = 0; run < 5; ++run) runs.push_back(moved_run(in_baselines, 1, lot));
    const Report now = moved_run(in_new_run, 1, lot), changed = slowed(now, 0.10);
    Contest contest{.bases = {}, .current = &now};
    for (const Report& run : runs) contest.bases.push_back(&run);
    const Verdict verdict = compared(contest, {}).cells.at(0).verdict;
    shares.slower += (verdict == Verdict::slower) / double{comparisons};
    shares.faster += (verdict == Verdict::faster) / double{comparisons};
    contest.current = &changed;
    shares.found += (compared(contest, {}).cells.at(0).verdict == Verdict::slower) / double{comparisons};
  }
  return shares;
}

// Forks are left out by readings of the placement, and not by their times.
TEST(Replay, ForksThatTheHostMovedFavourNoSide) {
  for (const auto& [base, now] : {std::pair{0.05, 0.4}, std::pair{0.4, 0.05}}) {
    const Shares shares = of_moved_runs(base, now);
    EXPECT_LT(shares.slower, 0.05) << base << ", " << now;
    EXPECT_LT(shares.faster, 0.05) << base << ", " << now;
    EXPECT_GT(shares.found, 0.80) << base << ", " << now;
  }
}

// Of a real machine, with all of its cells in each comparison.
TEST(Replay, FindsAChangeAndNoOtherInManyCells) {
  const auto runs = runs_of(recorded("fifty"), {});
  const auto found = contests(runs, 5);
  ASSERT_EQ(found.size(), 3U);
  for (const Contest& contest : found) {
    EXPECT_GT(compared(contest, {}).compared, 40);
    EXPECT_EQ(compared(contest, {}).count(Verdict::slower), 0);
    const Report changed = slowed(*contest.current, 0.3, 1);
    EXPECT_EQ(compared({contest.bases, &changed}, {}).count(Verdict::slower), 1);
  }
}

// The forks of cell 0 scatter in sessions 2 to 7 only, and those of cell 1 in sessions 0 and 1 only.
double scattering(int session, int round, int cell) {
  const bool wide = cell == (session < 2 ? 1 : 0);
  return 1e-3 * (1 + session) * (1 + (wide ? 0.2 : 0.001) * round);
}

TEST(Replay, ChoosesSteadyCellsByRunsThatAreNotCompared) {
  const auto runs = runs_of(made(8, 6, 2, scattering), {});
  const auto found = contests(runs, 5);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[2].bases.front(), &runs[2]);
  const auto steady = [&](const Contest& contest) {
    return steady_cells(choosing_runs(runs, contest, ChosenBy::other_runs));
  };
  EXPECT_THAT(steady(found[2]), ElementsAre(0)) << "left are sessions 0 and 1";
  EXPECT_THAT(steady(found[0]), ElementsAre(1)) << "left are sessions 6 and 7";
  EXPECT_THAT(steady(found[1]), ElementsAre()) << "left are sessions 0 and 7";
  EXPECT_THAT(steady_cells(choosing_runs(runs, found[0], ChosenBy::all_runs)), ElementsAre());
}

TEST(Replay, MeasuresTheScatterOfForksWithinRuns) {
  Recording recording = made(
      2, 2, 1, [](int session, int round, int) { return 1e-3 * std::exp(3.0 * session + 0.02 * round); });
  const auto spread = [&] {
    const auto runs = runs_of(recording, {});
    return fork_spread({&runs[0], &runs[1]}, 0);
  };
  EXPECT_NEAR(spread(), 0.02 / std::sqrt(2), 1e-5);
  for (Session& session : recording.sessions) session.cells[0].forks[1].flags = {quality_flag::disturbed};
  EXPECT_EQ(spread(), std::numeric_limits<double>::infinity()) << "one fork of each run counts";
}

TEST(Replay, MixesTheRunsOfEachCellByThemselves) {
  const auto runs = runs_of(made(8, 6, 3, numbered), {});
  Philox lot(1, "mixed");
  const std::vector<Report> mixed = recombined(runs, 5, 50, ChosenBy::other_runs, lot);
  ASSERT_EQ(mixed.size(), 6U);
  EXPECT_EQ(compared(contests(mixed, 5).front(), {}).compared, 50);
  for (std::size_t cell = 0; cell < 50; ++cell) {
    std::set<std::int64_t> sessions, recorded_cells;
    for (const Report& run : mixed) {
      const std::int64_t first = run.cells[cell].forks.front().blocks.front().end_ns;
      sessions.insert(first / 1'000'000);
      recorded_cells.insert(first % 1'000);
    }
    EXPECT_EQ(sessions.size(), 6U) << "no run is there twice";
    EXPECT_EQ(recorded_cells.size(), 1U);
  }
  EXPECT_TRUE(recombined(runs, 8, 1, ChosenBy::other_runs, lot).empty()) << "eight runs";
  const auto unsteady = runs_of(made(8, 6, 1, [](int, int round, int) { return 1e-3 * (1 + round); }), {});
  EXPECT_TRUE(recombined(unsteady, 5, 1, ChosenBy::all_runs, lot).empty()) << "no cell is steady";
}

TEST(Replay, SlowsOneCellOrAll) {
  const auto runs = runs_of(made(2, 6, 3, [](int, int round, int) { return 1e-3 + 1e-6 * round; }), {});
  const Report one = slowed(runs[1], 0.5, 1), all = slowed(runs[1], 0.5);
  EXPECT_EQ(compared({{&runs[0]}, &one}, {}).count(Verdict::slower), 1);
  EXPECT_EQ(compared({{&runs[0]}, &all}, {}).count(Verdict::slower), 3);
}

TEST(Replay, LeavesOutDisturbedRoundsAndMeasuresSpareOnes) {
  Recording recording = made(1, 40, 2, numbered);
  recording.sessions[0].cells[0].forks[3].flags = {quality_flag::disturbed};
  const auto runs = runs_of(recording, {});
  const CellReport& other = runs.at(0).cells[1];
  EXPECT_EQ(other.forks.size(), 7U) << "a spare round";
  EXPECT_EQ(counted_forks(other).size(), 7U) << "another cell was disturbed";
  EXPECT_EQ(counted_forks(runs.at(0).cells[0]).size(), 6U);
  EXPECT_EQ(runs.at(1).cells[1].forks.front().round, 7);
  EXPECT_TRUE(other.flags.empty());
}

// A run with --until clear of the recorded cells, from a round on.
Report until_clear(const Session& session, std::size_t from, HowEnded& how) {
  std::vector<Cell> cells;
  Report report;
  for (const CellReport& recorded : session.cells) {
    Cell& cell = cells.emplace_back();
    cell.axes = recorded.axes;
    cell.id = recorded.id;
    report.cells.push_back(recorded);
    report.cells.back().forks.clear();
    report.cells.back().equivalence.passed = true;
  }
  RunSettings settings = settings_of({});
  settings.until = Until::clear;
  Rounds rounds(cells, settings, report);
  for (auto forks = rounds.next(report); !forks.empty(); forks = rounds.next(report))
    for (const PlannedFork& planned : forks) {
      const auto& recorded = session.cells[planned.cell].forks;
      Fork fork = recorded.at((from + static_cast<std::size_t>(planned.round)) % recorded.size());
      fork.round = planned.round;
      report.cells[planned.cell].forks.push_back(fork);
    }
  how = rounds.ends(report, false).at(0).how;
  return report;
}

TEST(Replay, RunsOfFiveCellsGetTheirLooksOnTheRecordedMachine) {
  int runs = 0;
  for (const Recording& recording : noise()) {
    if (recording.name != "frameworks") continue;
    const Session& session = recording.sessions.front();
    ASSERT_EQ(session.cells.size(), 5U);
    for (std::size_t from = 0; from < session.cells.front().forks.size(); from += 7) {
      HowEnded how{};
      const Report report = until_clear(session, from, how);
      ++runs;
      EXPECT_NE(how, HowEnded::disturbed) << from;
      for (const CellReport& a : report.cells)
        for (const CellReport& b : report.cells) EXPECT_GE(shared_rounds(a, b).counting, 6) << from;
      const Analysis all = analyze(report);
      for (const AnalyzedCell& cell : all.cells) EXPECT_TRUE(cell.rank) << from;
      const AnalyzedCell& first = all.cells[all.groups.at(0).in_rank.front()];
      EXPECT_EQ(first.series, "onednn graph");
      EXPECT_EQ(first.last_rank, 1) << "it takes half of the time of the next one";
    }
  }
  EXPECT_GE(runs, 14);
}

TEST(Replay, DecidesNothingByAFlaggedSide) {
  Recording recording = made(1, 48, 1, numbered);
  for (Fork& fork : recording.sessions[0].cells[0].forks)
    if (fork.round < 8) fork.flags = {quality_flag::disturbed};
  const auto runs = runs_of(recording, {});
  EXPECT_THAT(runs.at(0).cells[0].flags, ElementsAre("disturbed"));
  const Report one = slowed(runs.at(1), 1), two = slowed(runs.at(2), 1);
  const Comparison comparison = compared({{&runs[0]}, &one}, {});
  EXPECT_EQ(comparison.count(Verdict::inconclusive), 1);
  EXPECT_THAT(comparison.cells[0].reason, HasSubstr("flag disturbed"));
  EXPECT_EQ(compared({{&runs[1]}, &two}, {}).count(Verdict::slower), 1);
  EXPECT_EQ(compared({{&runs[0], &runs[1]}, &two}, {}).cells[0].baselines, 1)
      << "the flagged one is left out";
}

TEST(Replay, AbEndsWithTheSession) {
  const Recording recording = made(1, 21, 2, [](int, int round, int) { return 1e-3 * (1 + round % 5); });
  Philox lot(1, "ab");
  const SequentialResult result = by_ab(recording.sessions[0], {}, 0, lot);
  EXPECT_THAT(result.rounds, ElementsAre(10, 10));
  const Recording steady = made(1, 200, 1, [](int, int, int) { return 1e-3; });
  const SequentialResult found = by_ab(steady.sessions[0], {}, 0.10, lot);
  EXPECT_EQ(found.cells[0].verdict, Verdict::slower);
  EXPECT_LT(found.rounds[0], 100);
}

// Shares of 400 trials of `assay ab` of one cell.
struct TrialShares {
  double slower = 0, faster = 0;
};
using Side = std::function<double(Philox&)>;
TrialShares of_trials(const char* name, const Side& a, const Side& b) {
  constexpr int trials = 400;
  const LookPlan plan = plan_looks(usual_confidence, 1);
  DecisionSettings settings;
  settings.threshold = usual_threshold;
  settings.confidence = plan.confidence;
  Philox lot(12, name);
  TrialShares shares;
  for (int i = 0; i < trials; ++i) {
    Looks looks(plan, settings);
    while (!looks.decided()) {
      const double base = a(lot);
      looks.add(base, b(lot));
    }
    shares.slower += (looks.verdict().verdict == Verdict::slower) / double{trials};
    shares.faster += (looks.verdict().verdict == Verdict::faster) / double{trials};
  }
  return shares;
}

// The figures are those of docs/explanation/statistics.md.
TEST(Simulation, AbIsNotMisledByHeavyTailsButByATailOfOneSide) {
  const auto heavy = [](double tailed, double longer) -> Side {
    return [=](Philox& lot) {
      return 1e-3 * std::exp(0.03 * lot.normal()) * (lot.uniform_double() < tailed ? longer : 1);
    };
  };
  const TrialShares both = of_trials("both", heavy(0.3, 1.65), heavy(0.3, 1.65));
  EXPECT_LE(both.slower + both.faster, 0.01);
  const TrialShares one = of_trials("one", heavy(0, 1), heavy(0.3, 1.65));
  EXPECT_NEAR(one.slower, 0.42, 0.1) << "their medians differ by 2 %, but every third fork is slower";
  EXPECT_EQ(one.faster, 0);
}

// Rounds that depend on those before them: no recording has such ratios.
TEST(Simulation, AbIsMisledOnlyByRoundsThatDependAndScatter) {
  double now = 0;
  const auto dependent = [&now](double correlation, double deviation) -> Side {
    return [&now, correlation, deviation](Philox& lot) {
      now = correlation * now + std::sqrt(1 - correlation * correlation) * deviation * lot.normal();
      return std::exp(now);
    };
  };
  const Side steady = [](Philox&) { return 1.0; };
  struct Case {
    double correlation, deviation, most;
  };
  for (const Case& one : {Case{0.6, 0.03, 0.01}, Case{0.8, 0.03, 0.01}, Case{0.6, 0.1, 0.06}}) {
    const TrialShares shares = of_trials("dependent", steady, dependent(one.correlation, one.deviation));
    EXPECT_LT(shares.slower, one.most) << one.correlation << " " << one.deviation;
    EXPECT_LT(shares.faster, one.most) << one.correlation << " " << one.deviation;
  }
  const TrialShares worst = of_trials("dependent", steady, dependent(0.8, 0.1));
  EXPECT_NEAR(worst.slower + worst.faster, 0.26, 0.1) << "the page says so";
}

nlohmann::json cell_json(const char* backend, int forks) {
  const Axes axes{.workload = "mlp",
                  .backend = backend,
                  .mode = "graph",
                  .batch = 32,
                  .dataset = "synthetic",
                  .optimizer = "adam",
                  .measure = "steps"};
  nlohmann::json cell{{"axes", encode(axes)}, {"forks", nlohmann::json::array()}};
  for (int round = 0; round < forks; ++round)
    cell["forks"].push_back({{"round", round}, {"blocks", {1000, 2000 + round, 3000}}});
  return cell;
}

TEST(Noise, IsReadAsItWasRecorded) {
  const TemporaryFolder folder;
  const auto file = folder / "forks.json";
  const auto session = [](std::vector<nlohmann::json> cells) {
    return nlohmann::json{{"start", "2026-01-01T00:00:00Z"}, {"cells", std::move(cells)}};
  };
  nlohmann::json recording{{"name", "a"},   {"kind", "quiet"},   {"machine", "m"},
                           {"commit", "c"}, {"command", "does"}, {"flags", true}};
  recording["sessions"] = nlohmann::json::array();
  recording["sessions"].push_back(session({cell_json("onednn", 3), cell_json("torch", 3)}));
  recording["sessions"][0]["cells"][1]["forks"][2]["flags"] = {"disturbed"};
  const auto read = [&](const nlohmann::json& one) {
    std::ofstream(file) << nlohmann::json{{"schema", "assay-noise/2"}, {"recordings", std::vector{one}}};
    return read_noise(file);
  };
  const Recording found = read(recording).at(0);
  EXPECT_EQ(found.cells(), 2U);
  EXPECT_EQ(found.rounds(), 3);
  EXPECT_NEAR(fork_time(found.sessions[0].cells[0].forks[1])->step_seconds, 2001e-9, 1e-15);
  EXPECT_THAT(found.sessions[0].cells[1].forks[2].flags, ElementsAre("disturbed"));
  nlohmann::json shorter = recording, other = recording, twice = recording;
  shorter["sessions"][0]["cells"][1]["forks"].erase(1);
  EXPECT_THROW(read(shorter), JsonError);
  other["sessions"].push_back(session({cell_json("onednn", 3)}));
  EXPECT_THROW(read(other), JsonError);
  twice["sessions"][0]["cells"][1] = twice["sessions"][0]["cells"][0];
  EXPECT_THROW(read(twice), JsonError);
}

}  // namespace
}  // namespace assay::simulation

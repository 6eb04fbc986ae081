// A short run of what scripts/lab/simulate-gate does at length: what the gate promises, on noise of real forks;
// and whether the replay works as described, on made recordings.
#include <cmath>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/run/rounds.hpp"
#include "harness/core/error.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/axes_json.hpp"
#include "harness/report/fork_time.hpp"
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

bool has_slower(const Comparison& comparison) { return comparison.count(Verdict::slower) > 0; }

TEST(Simulation, has_noise_of_every_kind_that_was_recorded_on_purpose) {
  std::set<std::string> kinds;
  for (const Recording& recording : noise()) {
    kinds.insert(recording.kind);
    EXPECT_GE(recording.rounds(), 40) << recording.name;
  }
  for (const char* kind : {"quiet", "drift", "bursts", "bimodal", "tails"})
    EXPECT_TRUE(kinds.contains(kind)) << kind;
}

TEST(Simulation, a_calibrated_gate_has_few_alarms) {
  const Design design;
  int alarms = 0, all = 0;
  for (const Recording& recording : noise())
    for (const Split& split : splits(recording, design)) {
      const auto calibration = calibration_by(split.calibrating, design);
      ASSERT_TRUE(calibration) << recording.name;
      for (const TwoRuns& two : pairs(split.judged)) {
        ++all;
        alarms += has_slower(compared(two.base, two.current, design, calibration));
      }
    }
  EXPECT_LE(alarms, all / 50);
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

TEST(Simulation, a_large_change_is_found_where_forks_are_steady) {
  Design design;
  design.forks = 12;
  Design finer = design;
  finer.threshold = 0.02;
  for (const Recording& recorded : noise()) {
    if (recorded.kind != "quiet") continue;
    const Recording recording = scaled(recorded, 0.02);
    for (const double spread : recording.spreads()) EXPECT_NEAR(spread, 0.02, 1e-4);
    int ten = 0, five = 0, cells = 0;
    for (const Split& split : splits(recording, design))
      for (const TwoRuns& two : pairs(split.judged)) {
        cells += static_cast<int>(recording.cells());
        ten += compared(two.base, slowed(two.current, 0.10), design).count(Verdict::slower);
        five += compared(two.base, slowed(two.current, 0.05), finer).count(Verdict::slower);
      }
    EXPECT_GE(cells, 40) << recording.name;
    EXPECT_GE(100 * ten, 95 * cells) << recording.name;
    EXPECT_GE(100 * five, 80 * cells) << recording.name;
  }
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
std::multiset<std::int64_t> forks_in(const Runs& runs) {
  std::multiset<std::int64_t> found;
  for (const auto& session : runs)
    for (const Report& run : session)
      for (const CellReport& cell : run.cells)
        for (const Fork& fork : cell.forks) found.insert(fork.blocks.front().end_ns);
  return found;
}

TEST(Replay, IsMadeAsTheProgramMeasures) {
  const Design design;
  EXPECT_EQ(design.forks, 6) << "the tables of docs/explanation/statistics.md are to be made again";
  EXPECT_EQ(design.runs, 5);
  EXPECT_EQ(design.confidence, 0.95);
  EXPECT_EQ(design.threshold, 0.05);
}

TEST(Replay, NeverCalibratesOnWhatItJudges) {
  for (const int sessions : {1, 2, 5}) {
    const Recording recording = made(sessions, 31, 3, numbered);
    const auto both = splits(recording, {});
    ASSERT_EQ(both.size(), 2U);
    for (const Split& split : both) {
      const auto calibrating = forks_in(split.calibrating), judged = forks_in(split.judged);
      ASSERT_FALSE(calibrating.empty() || judged.empty());
      for (const std::int64_t fork : judged) {
        EXPECT_EQ(judged.count(fork), 1U) << "no fork is in two runs";
        EXPECT_FALSE(calibrating.contains(fork));
      }
    }
    EXPECT_EQ(forks_in(both[0].calibrating), forks_in(both[1].judged));
    const auto sessions_judged = both[0].judged.size() + both[0].calibrating.size();
    EXPECT_EQ(sessions_judged, sessions == 1 ? 2U : static_cast<std::size_t>(sessions));
  }
}

TEST(Replay, JudgesEachRecordedCellOnce) {
  const Recording recording = made(1, 24, 7, numbered);
  const std::vector<Split> both = splits(recording, {});
  const auto two = pairs(both.front().judged);
  ASSERT_EQ(two.size(), 1U) << "two runs of six rounds are in twelve";
  const Comparison comparison = compared(two[0].base, two[0].current, {});
  EXPECT_EQ(comparison.judged, 7);
  EXPECT_EQ(comparison.cells.size(), 7U);
  EXPECT_DOUBLE_EQ(comparison.cell_confidence, 1 - 0.05 / 7);
  for (const Recording& one : noise())
    for (const Split& split : splits(one, {}))
      for (const TwoRuns& runs : pairs(split.judged))
        ASSERT_EQ(compared(runs.base, runs.current, {}).judged, static_cast<int>(one.cells())) << one.name;
}

TEST(Replay, LeavesOutDisturbedRoundsAndMeasuresSpareOnes) {
  Recording recording = made(1, 40, 2, numbered);
  recording.sessions[0].cells[0].forks[3].flags = {quality_flag::disturbed};
  const auto runs = splits(recording, {}).front().calibrating.front();
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
  const auto runs = splits(recording, {}).front().calibrating.front();
  EXPECT_THAT(runs.at(0).cells[0].flags, ElementsAre("disturbed"));
  const Comparison comparison = compared(runs.at(0), slowed(runs.at(1), 1), {});
  EXPECT_EQ(comparison.count(Verdict::inconclusive), 1);
  EXPECT_THAT(comparison.cells[0].reason, HasSubstr("flag disturbed"));
  EXPECT_EQ(compared(runs.at(1), slowed(runs.at(2), 1), {}).count(Verdict::slower), 1);
}

TEST(Replay, ACalibrationOfSeveralSessionsKnowsWhatTheyDifferBy) {
  constexpr int sessions = 32;
  Philox lot(3, "sessions");
  std::vector<double> factors;
  for (int session = 0; session < sessions; ++session) factors.push_back(std::exp(0.05 * lot.normal()));
  const Recording recording = made(sessions, 12, 1, [&](int session, int, int) {
    return 1e-3 * factors[static_cast<std::size_t>(session)] * std::exp(0.005 * lot.normal());
  });
  int plain = 0, calibrated = 0, all = 0;
  for (const Split& split : splits(recording, {})) {
    const auto calibration = calibration_by(split.calibrating, {});
    ASSERT_TRUE(calibration);
    EXPECT_EQ(calibration->sessions.size(), 16U);
    EXPECT_NEAR(calibration->cells[0].between_runs, 0.05, 0.02);
    for (const TwoRuns& two : pairs(split.judged)) {
      ++all;
      plain += has_slower(compared(two.base, two.current, {}));
      calibrated += has_slower(compared(two.base, two.current, {}, calibration));
    }
  }
  EXPECT_EQ(all, 2 * 32 * 31 / 2);
  EXPECT_GT(plain, all / 10);
  EXPECT_LE(calibrated, all / 40) << "half of 5 %, for the other half would be faster";
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

TEST(Replay, BoundsAShareAsClopperAndPearsonDo) {
  EXPECT_NEAR(upper_share(0, 6, 0.95), 1 - std::pow(0.05, 1.0 / 6), 1e-9);
  EXPECT_NEAR(upper_share(1, 6, 0.95), 0.5818034, 1e-6);
  EXPECT_EQ(upper_share(6, 6, 0.95), 1);
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

#include "harness/conductor/compare/calibration.hpp"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/config/options.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/report/environment_difference.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;

const MachineRecord machine{.kernel = "6.1",
                            .cpu = {.model = "a processor", .allowed = 2, .loop_seconds = 300e-6}};

// A run whose own mean is off by a draw of `between`, its forks by draws of `within`.
Report run(double within, double between, unsigned seed, int forks) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  const double run_factor = std::exp(between * normal(engine));
  Report report;
  report.environment = machine;
  report.cells = {test::sample_cell("onednn", "graph", 2e-3, forks)};
  for (Fork& fork : report.cells[0].forks) {
    const double step = 2e-3 * run_factor * std::exp(within * normal(engine));
    std::int64_t now = 1'000'000'000;
    for (Block& block : fork.blocks) {
      block.begin_ns = now;
      now += std::llround(1e9 * step * static_cast<double>(block.steps));
      block.end_ns = now;
    }
  }
  return report;
}

std::vector<Report> runs(double within, double between, int count, int forks) {
  std::vector<Report> made;
  for (int i = 0; i < count; ++i) made.push_back(run(within, between, static_cast<unsigned>(100 + i), forks));
  return made;
}

TEST(Calibrate, separates_the_scatter_of_forks_and_runs) {
  const Calibration quiet = calibrate(runs(0.02, 0, 40, 12), {});
  EXPECT_NEAR(quiet.cells.at(0).within_runs, 0.02, 0.002);
  EXPECT_LT(quiet.cells.at(0).between_runs, 0.01) << "little more than the prior";
  const Calibration moody = calibrate(runs(0.02, 0.05, 40, 12), {});
  EXPECT_NEAR(moody.cells.at(0).within_runs, 0.02, 0.002);
  EXPECT_NEAR(moody.cells.at(0).between_runs, 0.05, 0.015);
  EXPECT_GT(moody.cells.at(0).visible.at(8), quiet.cells.at(0).visible.at(8));
}

TEST(Calibrate, suggests_more_forks_if_noisy_and_none_if_runs_differ) {
  const Calibration quiet = calibrate(runs(0.005, 0, 20, 8), {}), noisy = calibrate(runs(0.05, 0, 20, 8), {});
  ASSERT_TRUE(quiet.forks && noisy.forks);
  EXPECT_LT(*quiet.forks, *noisy.forks);
  EXPECT_LE(quiet.suggested_threshold.value(), 0.02);
  EXPECT_GE(noisy.suggested_threshold.value(), 0.03);
  const auto& visible = noisy.cells.at(0).visible;
  EXPECT_GT(visible.begin()->second, visible.rbegin()->second);
  const Calibration moody = calibrate(runs(0.01, 0.1, 20, 8), {});
  EXPECT_FALSE(moody.forks);
  EXPECT_FALSE(moody.cells.at(0).forks_wanted);
}

TEST(Calibrate, estimates_the_rounds_that_a_change_needs) {
  const Calibration quiet = calibrate(runs(0.005, 0.1, 20, 8), {}),
                    noisy = calibrate(runs(0.05, 0, 20, 8), {});
  EXPECT_EQ(quiet.rounds_for({}, 0.05, 0.99), 8) << "the spread between runs is in no round";
  const auto rounds = noisy.rounds_for({noisy.cells[0].id}, 0.03, 0.99);
  ASSERT_TRUE(rounds);
  EXPECT_GT(*rounds, 8);
  EXPECT_GT(noisy.rounds_for({}, 0.02, 0.99).value_or(1000), *rounds);
}

TEST(Calibrate, is_read_back_unchanged) {
  const Calibration made = calibrate(runs(0.02, 0.03, 5, 6), {});
  EXPECT_EQ(made.fingerprint, machine_fingerprint(machine));
  const std::string text = strict_json_text(to_json(made));
  EXPECT_EQ(strict_json_text(to_json(parse_calibration(text, "c.json"))), text);
  const auto histories = parse_calibration(text, "c.json").histories();
  ASSERT_EQ(histories.size(), 1U) << "of step_time and of no other metric";
  EXPECT_EQ(histories[0].metric, "step_time");
  ASSERT_EQ(histories[0].cells.size(), 1U);
  EXPECT_EQ(histories[0].cells[0].sessions.at(0).size(), 5U);
  EXPECT_NEAR(histories[0].cells[0].sessions[0][0][0], std::log(2e-3), 0.2);
}

// `count` sessions of `runs` runs, each session off by a draw of `between`, its runs not.
Calibration of_sessions(int count, int runs_each, double within, double between) {
  std::optional<Calibration> made;
  std::mt19937 engine(7);
  std::normal_distribution<double> normal;
  for (int session = 0; session < count; ++session) {
    const double factor = std::exp(between * normal(engine));
    std::vector<Report> reports;
    for (int i = 0; i < runs_each; ++i) {
      reports.push_back(run(within, 0, static_cast<unsigned>(1000 * session + i), 6));
      for (Fork& fork : reports.back().cells[0].forks)
        for (Block& block : fork.blocks)
          block.end_ns =
              block.begin_ns + std::llround(factor * static_cast<double>(block.end_ns - block.begin_ns));
    }
    made = made ? appended(*made, reports, {}) : calibrate(reports, {});
  }
  return *made;
}

TEST(Calibrate, AddsSessionsAndSeesWhatTheyDifferBy) {
  const Calibration one = of_sessions(1, 5, 0.01, 0.05), many = of_sessions(30, 2, 0.01, 0.05);
  EXPECT_LT(one.cells.at(0).between_runs, 0.02) << "its runs follow one another";
  EXPECT_EQ(many.sessions.size(), 30U);
  EXPECT_EQ(many.cells.at(0).sessions, 30);
  EXPECT_EQ(many.cells.at(0).runs, 60);
  EXPECT_NEAR(many.cells.at(0).between_runs, 0.05, 0.015);
  EXPECT_NEAR(many.cells.at(0).within_runs, 0.01, 0.002);
}

TEST(Calibrate, AddsASessionOfOneRun) {
  const auto first = runs(0.02, 0, 2, 6);
  const auto second = runs(0.02, 0, 1, 6);
  const Calibration made = appended(calibrate(first, {}), second, {});
  EXPECT_EQ(made.cells.at(0).runs, 3);
  EXPECT_THROW(calibrate(second, {}), ConfigError);
  EXPECT_THROW(appended(made, runs(0.02, 0, 2, 1), {}), ConfigError) << "one fork a run adds nothing";
}

TEST(Calibrate, KeepsMetricsApart) {
  CalibrationSettings compiling;
  compiling.metric = "compile_time";
  const Calibration steps = calibrate(runs(0.02, 0.03, 5, 6), {});
  const Calibration both = appended(steps, runs(0.02, 0.03, 5, 6), compiling);
  ASSERT_EQ(both.cells.size(), 2U);
  EXPECT_EQ(both.cells[0].between_runs, steps.cells[0].between_runs);
  EXPECT_EQ(both.cells[0].forks_wanted, steps.cells[0].forks_wanted) << "each cell is decided by one metric";
  EXPECT_EQ(both.cells[1].metric, "compile_time");
  EXPECT_EQ(both.histories().size(), 2U);
  EXPECT_EQ(both.rounds_for({}, 0.05, 0.99), steps.rounds_for({}, 0.05, 0.99));
  EXPECT_FALSE(steps.rounds_for({}, 0.05, 0.99, "compile_time"));
}

struct OtherExperiment {
  const char* name;
  void (*change)(Report&);
  const char* said;
};
class CalibrateRefuses : public ::testing::TestWithParam<OtherExperiment> {};

TEST_P(CalibrateRefuses, RunsOfAnotherExperiment) {
  auto first = runs(0.02, 0, 2, 6), more = first;
  for (auto* reports : {&first, &more})
    for (Report& report : *reports) {
      report.run.commit = "abc";
      report.run.sessions.emplace_back().variables = {{"OMP_PROC_BIND", "true"}};
      report.cells[0].settings = {{"clock", {{"blocks", 10}}}, {"check", {{"distinct", 4}}}};
    }
  const Calibration made = calibrate(first, {});
  EXPECT_NO_THROW(appended(made, more, {}));
  for (Report& report : more) GetParam().change(report);
  const auto said = [](const auto& act) -> std::string {
    try {
      act();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_THAT(said([&] { appended(made, more, {}); }), HasSubstr(GetParam().said));
  const std::vector<Report> mixed{first[0], more[0]};
  EXPECT_THAT(said([&] { calibrate(mixed, {}); }), HasSubstr(GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(
    Of, CalibrateRefuses,
    ::testing::Values(
        OtherExperiment{"machine", [](Report& r) { r.environment.cpu.allowed = 4; },
                        "the logical CPUs that may be used was 2 and is 4"},
        OtherExperiment{"speed", [](Report& r) { r.environment.cpu.loop_seconds = 400e-6; },
                        "the time of a fixed loop on its processor was 300 us and is 400 us"},
        OtherExperiment{"library", [](Report& r) { r.cells[0].libraries[0].version = "1.1"; },
                        "onednn: onednn was 1.0 and is 1.1"},
        OtherExperiment{"build", [](Report& r) { r.run.commit = "abd"; },
                        "the commit of the program was abc and is abd"},
        OtherExperiment{"changes", [](Report& r) { r.run.dirty = true; }, "was false and is true"},
        OtherExperiment{"blocks", [](Report& r) { r.cells[0].settings["clock"]["blocks"] = 5; }, "clock was"},
        OtherExperiment{"observed", [](Report& r) { r.cells[0].forks[3].settings["threads"] = "1"; },
                        "observed threads was 2 and is 1 or 2"},
        OtherExperiment{"variable", [](Report& r) { r.run.sessions[0].variables.clear(); },
                        "environment variables was OMP_PROC_BIND=true"},
        OtherExperiment{"style", [](Report& r) { r.run.settings.fork_style = "resident"; },
                        "fork style was fresh and is resident"}),
    [](const auto& row) { return row.param.name; });

TEST(Calibrate, DoesNotMindHowACellWasChecked) {
  auto first = runs(0.02, 0, 2, 6), more = first;
  for (Report& report : first) report.cells[0].settings = {{"check", {{"distinct", 4}}}};
  for (Report& report : more) report.cells[0].settings = {{"check", {{"distinct", 8}}}};
  EXPECT_NO_THROW(appended(calibrate(first, {}), more, {}));
}

TEST(Calibrate, SaysWhatBecameOfTheCellsWhereNoneIsOk) {
  auto two = runs(0.02, 0, 2, 6);
  two[1].cells[0].status = Status::crashed;
  two[1].cells[0].reason = "killed by SIGSEGV";
  try {
    calibrate(two, {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("crashed (killed by SIGSEGV)"));
  }
  two = runs(0.02, 0, 2, 1);
  try {
    calibrate(two, {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("1 of 1 forks count and have step_time"));
  }
}

TEST(Calibrate, IsAsOldAsTheFirstOfItsReports) {
  auto reports = runs(0.02, 0, 2, 6);
  reports[0].run.start = "2020-01-02T03:04:05Z";
  reports[1].run.start = "2020-01-01T03:04:05Z";
  EXPECT_EQ(calibrate(reports, {}).sessions.at(0).made, "2020-01-01T03:04:05Z");
}

TEST(Calibrate, LeavesOutSessionsThatAreOutOfDate) {
  const Calibration first = calibrate(runs(0.02, 0, 3, 6), {});
  Calibration both = appended(first, runs(0.02, 0.2, 4, 6), {});
  EXPECT_EQ(both.cells[0].runs, 7);
  both.sessions[1].made = "2020-01-01T00:00:00Z";
  const InForce now = in_force(both, machine, both.sessions[0].made);
  ASSERT_TRUE(now.calibration);
  EXPECT_EQ(now.calibration->cells[0].between_runs, first.cells[0].between_runs);
  EXPECT_EQ(now.calibration->cells[0].forks_wanted, first.cells[0].forks_wanted);
  ASSERT_EQ(now.left_out.size(), 1U);
  EXPECT_THAT(now.left_out[0], HasSubstr("days old"));
  MachineRecord newer = machine;
  newer.kernel = "6.2";
  const InForce none = in_force(both, newer, both.sessions[0].made);
  EXPECT_FALSE(none.calibration);
  EXPECT_EQ(none.left_out.size(), 2U);
  const InForce all = in_force(first, machine, first.made);
  EXPECT_TRUE(all.calibration && all.left_out.empty());
  // Nor does the next session keep them.
  EXPECT_EQ(appended(both, runs(0.02, 0, 2, 6), {}).sessions.size(), 2U);
}

TEST(Calibrate, IsOutOfDateAfterAMonthUnderAnotherKernelAndAtAnotherSpeed) {
  CalibrationSession made;
  made.made = "2026-01-01T00:00:00Z";
  made.machine = machine_identity(machine);
  const MachineRecord& same = machine;
  MachineRecord other = machine, slow = machine, nearly = machine;
  other.kernel = "6.2";
  slow.cpu.loop_seconds = 350e-6;
  nearly.cpu.loop_seconds = 340e-6;
  EXPECT_EQ(out_of_date(made, same, "2026-01-30T00:00:00Z"), "");
  EXPECT_EQ(out_of_date(made, nearly, "2026-01-30T00:00:00Z"), "");
  EXPECT_EQ(out_of_date(made, slow, "2026-01-30T00:00:00Z"),
            "the time of a fixed loop on its processor was 300 us and is 350 us");
  EXPECT_THAT(out_of_date(made, same, "2026-02-01T00:00:00Z"), HasSubstr("31 days old"));
  EXPECT_THAT(out_of_date(made, other, "2026-01-02T00:00:00Z"), HasSubstr("with kernel 6.1"));
  made.made = "yesterday";
  EXPECT_THAT(out_of_date(made, same, "2026-01-02T00:00:00Z"), HasSubstr("its date is not valid"));
}

TEST(Calibrate, refuses_one_run_two_machines_and_a_damaged_file) {
  auto two = runs(0.02, 0, 2, 6);
  EXPECT_THROW(calibrate(std::span(two).first(1), {}), ConfigError);
  two[1].environment.cpu.model = "another";
  EXPECT_THROW(calibrate(two, {}), ConfigError);
  auto json = to_json(calibrate(runs(0.02, 0, 2, 6), {}));
  json["cells"][0]["between_runs"] = -1;
  EXPECT_THROW(parse_calibration(json.dump(), "c.json"), JsonError);
  EXPECT_THROW(parse_calibration("{}", "c.json"), JsonError);
  json = to_json(calibrate(runs(0.02, 0, 2, 6), {}));
  EXPECT_NO_THROW(parse_calibration(json.dump(), "c.json"));
  json["sessions"][0]["cells"][0]["runs"][1][2] = 0;
  EXPECT_THROW(parse_calibration(json.dump(), "c.json"), JsonError);
  json["sessions"].clear();
  EXPECT_THROW(parse_calibration(json.dump(), "c.json"), JsonError);
}

// The error for a calibration file in which one value was replaced.
std::string refusal_of(const std::string& pointer, const nlohmann::json& value) {
  static const nlohmann::json good = to_json(calibrate(runs(0.02, 0, 2, 6), {}));
  nlohmann::json json = good;
  json.at(nlohmann::json::json_pointer(pointer)) = value;
  try {
    parse_calibration(json.dump(), "c.json");
  } catch (const JsonError& error) {
    return error.what();
  }
  return "";
}

TEST(Calibration, RefusesSettingsByWhichNothingCanBeDecided) {
  EXPECT_EQ(refusal_of("/confidence", 0.95), "");
  for (const double confidence : {-1.0, 0.0, 1.0, 1.5})
    EXPECT_THAT(refusal_of("/confidence", confidence), HasSubstr("confidence"));
  EXPECT_THAT(refusal_of("/confidence", 1 - 1e-16), HasSubstr("confidence"));
  EXPECT_THAT(refusal_of("/threshold", -1), HasSubstr("threshold"));
  EXPECT_THAT(refusal_of("/cells/0", {{"between_runs", nullptr}, {"not_finite", {{"between_runs", "nan"}}}}),
              HasSubstr("between_runs: is null"));
}

TEST(Calibration, RefusesNumbersThatWouldTakeHoursOrOverflow) {
  EXPECT_THAT(refusal_of("/cells/0/between_runs", 1e9), HasSubstr("between_runs"));
  const nlohmann::json many(20'000, 0.5);
  EXPECT_THAT(refusal_of("/sessions/0/cells/0/runs", {many, many}), HasSubstr("8e+08 pairs"));
}

TEST(Calibration, IsKeptInTheCacheThatTheEnvironmentNames) {
  ::setenv("ASSAY_CACHE", "/elsewhere", 1);
  EXPECT_EQ(calibration_place("0123456789ab"), "/elsewhere/calibrations/0123456789ab.json");
  ::unsetenv("ASSAY_CACHE");
}

TEST(Fingerprint, is_of_the_machine_and_not_of_its_name_or_clock) {
  MachineRecord other = machine;
  other.host = "elsewhere";
  other.cpu.maximum_hz = 3'000'000'000;
  EXPECT_EQ(machine_fingerprint(other), machine_fingerprint(machine));
  other.cpu.allowed = 4;
  EXPECT_NE(machine_fingerprint(other), machine_fingerprint(machine));
  EXPECT_EQ(machine_fingerprint(machine)->size(), 12U);
  other.cpu.model = {};
  EXPECT_FALSE(machine_fingerprint(other)) << "two unknown processors are not one";
}

}  // namespace
}  // namespace assay

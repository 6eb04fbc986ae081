#include "harness/conductor/compare/calibration.hpp"

#include <cmath>
#include <cstdlib>
#include <random>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/config/options.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/report/environment_difference.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;

const nlohmann::json machine{{"cpu", {{"model", "a processor"}, {"allowed", 2}}}};

// A run whose own mean is off by a draw of `between`, its forks by draws of `within`.
Report run(double within, double between, unsigned seed, int forks) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  const double run_factor = std::exp(between * normal(engine));
  Report report;
  report.run = {{"dirty", false}};
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

TEST(Calibrate, tells_the_scatter_of_forks_from_that_of_runs) {
  const Calibration quiet = calibrate(runs(0.02, 0, 40, 12), {});
  EXPECT_NEAR(quiet.cells.at(0).within_runs, 0.02, 0.002);
  EXPECT_LT(quiet.cells.at(0).between_runs, 0.005);
  const Calibration moody = calibrate(runs(0.02, 0.05, 40, 12), {});
  EXPECT_NEAR(moody.cells.at(0).within_runs, 0.02, 0.002);
  EXPECT_NEAR(moody.cells.at(0).between_runs, 0.05, 0.015);
  EXPECT_GT(moody.cells.at(0).floor, quiet.cells.at(0).floor);
}

TEST(Calibrate, counts_the_alarms_that_runs_of_one_build_gave) {
  const Calibration quiet = calibrate(runs(0.01, 0, 10, 12), {}),
                    moody = calibrate(runs(0.01, 0.2, 10, 12), {});
  EXPECT_EQ(quiet.comparisons(), 45);
  EXPECT_EQ(quiet.alarms(), 0);
  EXPECT_GT(moody.alarms(), 20);
}

TEST(Calibrate, suggests_more_forks_where_it_is_noisier_and_none_where_runs_differ_too_much) {
  const Calibration quiet = calibrate(runs(0.005, 0, 20, 8), {}), noisy = calibrate(runs(0.05, 0, 20, 8), {});
  ASSERT_TRUE(quiet.forks && noisy.forks);
  EXPECT_LT(*quiet.forks, *noisy.forks);
  EXPECT_LE(quiet.suggested_threshold.value(), 0.02);
  EXPECT_GE(noisy.suggested_threshold.value(), 0.05);
  const auto& visible = noisy.cells.at(0).visible;
  EXPECT_GT(visible.begin()->second, visible.rbegin()->second);
  const Calibration moody = calibrate(runs(0.01, 0.1, 20, 8), {});
  EXPECT_FALSE(moody.forks);
  EXPECT_FALSE(moody.cells.at(0).forks_wanted);
}

TEST(Calibrate, tells_how_many_rounds_a_change_takes_here) {
  const Calibration quiet = calibrate(runs(0.005, 0.1, 20, 8), {}),
                    noisy = calibrate(runs(0.05, 0, 20, 8), {});
  EXPECT_EQ(quiet.rounds_for({}, 0.05, 0.99), 8) << "the spread between runs is in no round";
  const auto rounds = noisy.rounds_for({noisy.cells[0].id}, 0.03, 0.99);
  ASSERT_TRUE(rounds);
  EXPECT_GT(*rounds, 8);
  EXPECT_GT(noisy.rounds_for({}, 0.02, 0.99).value_or(1000), *rounds);
}

TEST(Calibrate, is_read_back_as_it_was_written) {
  const Calibration made = calibrate(runs(0.02, 0.03, 5, 6), {});
  EXPECT_EQ(made.fingerprint, machine_fingerprint(machine));
  const std::string text = strict_json_text(to_json(made));
  EXPECT_EQ(strict_json_text(to_json(parse_calibration(text, "c.json"))), text);
  const auto between = parse_calibration(text, "c.json").between_runs();
  ASSERT_EQ(between.size(), 1U) << "of step_time and of no other metric";
  const RunSpreads& spreads = between.at("step_time");
  EXPECT_EQ(spreads.at(made.cells[0].id).deviation, made.cells[0].between_runs);
  EXPECT_EQ(spreads.at(made.cells[0].id).degrees, 4);
  EXPECT_EQ(spreads.at("").deviation, made.cells[0].between_runs) << "for cells that were not calibrated";
}

TEST(Calibrate, IsOutOfDateAfterAMonthAndUnderAnotherKernel) {
  Calibration made;
  made.made = "2026-01-01T00:00:00Z";
  made.kernel = "6.1";
  const nlohmann::json same{{"kernel", "6.1"}}, other{{"kernel", "6.2"}};
  EXPECT_EQ(out_of_date(made, same, "2026-01-30T00:00:00Z"), "");
  EXPECT_THAT(out_of_date(made, same, "2026-02-01T00:00:00Z"), HasSubstr("31 days old"));
  EXPECT_THAT(out_of_date(made, other, "2026-01-02T00:00:00Z"), HasSubstr("under kernel 6.1"));
  made.made = "yesterday";
  EXPECT_THAT(out_of_date(made, same, "2026-01-02T00:00:00Z"), HasSubstr("does not say when"));
}

TEST(Calibrate, refuses_one_run_two_machines_and_a_damaged_file) {
  auto two = runs(0.02, 0, 2, 6);
  EXPECT_THROW(calibrate(std::span(two).first(1), {}), ConfigError);
  two[1].environment["cpu"]["model"] = "another";
  EXPECT_THROW(calibrate(two, {}), ConfigError);
  auto json = to_json(calibrate(runs(0.02, 0, 2, 6), {}));
  json["cells"][0]["between_runs"] = -1;
  EXPECT_THROW(parse_calibration(json.dump(), "c.json"), JsonError);
  EXPECT_THROW(parse_calibration("{}", "c.json"), JsonError);
}

TEST(Calibration, IsKeptInTheCacheThatTheEnvironmentNames) {
  ::setenv("ASSAY_CACHE", "/elsewhere", 1);
  EXPECT_EQ(calibration_place("0123456789ab"), "/elsewhere/calibrations/0123456789ab.json");
  ::unsetenv("ASSAY_CACHE");
}

TEST(Fingerprint, is_of_the_machine_and_not_of_its_name_or_clock) {
  nlohmann::json other = machine;
  other["host"] = "elsewhere";
  other["cpu"]["maximum_hz"] = 3'000'000'000;
  EXPECT_EQ(machine_fingerprint(other), machine_fingerprint(machine));
  other["cpu"]["allowed"] = 4;
  EXPECT_NE(machine_fingerprint(other), machine_fingerprint(machine));
  EXPECT_EQ(machine_fingerprint(machine)->size(), 12U);
  other["cpu"].erase("model");
  EXPECT_FALSE(machine_fingerprint(other)) << "two unknown processors are not one";
}

}  // namespace
}  // namespace assay

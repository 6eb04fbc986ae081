#include "harness/conductor/print/printers.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using nlohmann::json;

json rows_of(const json& out, const std::string& type) {
  json rows = json::array();
  for (const json& row : out["benchmarks"])
    if (row["run_type"] == type) rows.push_back(row);
  return rows;
}

TEST(Gbench, has_a_repetition_for_each_fork_under_one_name) {
  const Report report = test::sample_report(3);
  const json out = json::parse(gbench_text(report));
  EXPECT_EQ(out["context"]["json_schema_version"], 1);
  const json rows = rows_of(out, "iteration");
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[1]["name"], report.cells[0].id);
  EXPECT_EQ(rows[1]["repetition_index"], 1);
  EXPECT_EQ(rows[1]["repetitions"], 3);
  EXPECT_EQ(rows[1]["iterations"], 150);
  EXPECT_EQ(rows[1]["time_unit"], "ns");
  EXPECT_NEAR(rows[1]["real_time"].get<double>(), 2.02e6, 1e-3);
  EXPECT_NEAR(rows[1]["cpu_time"].get<double>(), 4.04e6, 1e-3);
  EXPECT_NEAR(rows[1]["items_per_second"].get<double>(), 200 / 0.00202, 1e-3);
}

TEST(Gbench, DescribesMachineAndBuildOnlyIfTheyAreKnown) {
  Report report = test::sample_report(1);
  const auto context = [&] { return json::parse(gbench_text(report)).at("context"); };
  EXPECT_FALSE(context().contains("cpu_scaling_enabled"));
  EXPECT_FALSE(context().contains("library_build_type"));
  report.environment.cpu.governor = "powersave";
  report.run.build.emplace().type = "Debug";
  EXPECT_EQ(context().at("cpu_scaling_enabled"), true);
  EXPECT_EQ(context().at("library_build_type"), "debug");
  report.environment.cpu.governor = "performance";
  report.run.build->type = "RelWithDebInfo";
  EXPECT_EQ(context().at("cpu_scaling_enabled"), false);
  EXPECT_EQ(context().at("library_build_type"), "release");
}

TEST(Gbench, aggregates_as_google_benchmark_does) {
  const json rows = rows_of(json::parse(gbench_text(test::sample_report(3))), "aggregate");
  ASSERT_EQ(rows.size(), 8u);
  EXPECT_EQ(rows[0]["aggregate_name"], "mean");
  EXPECT_NEAR(rows[0]["real_time"].get<double>(), 2.02e6, 1e-3);
  EXPECT_NEAR(rows[1]["real_time"].get<double>(), 2.02e6, 1e-3);
  EXPECT_NEAR(rows[2]["real_time"].get<double>(), 2e4, 1e-3);  // 2.00, 2.02, 2.04 ms
  EXPECT_EQ(rows[3]["aggregate_unit"], "percentage");
  EXPECT_NEAR(rows[3]["real_time"].get<double>(), 2e4 / 2.02e6, 1e-12);
}

TEST(Gbench, lists_no_time_of_a_cell_that_is_not_ok_or_of_a_flagged_fork) {
  Report report = test::sample_report(3);
  report.cells[0].status = Status::wrong_result;
  report.cells[0].reason = "loss differs";
  report.cells[1].forks[0].flags = {"disturbed"};
  const json rows = rows_of(json::parse(gbench_text(report)), "iteration");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["error_occurred"], true);
  EXPECT_EQ(rows[0]["error_message"], "wrong_result: loss differs");
  EXPECT_EQ(rows[1]["repetitions"], 2);
}

TEST(Gbench, lists_no_time_of_a_flagged_cell_even_of_its_clean_forks) {
  Report report = test::sample_report(3);
  report.cells[1].flags = report.cells[1].forks[0].flags = report.cells[1].forks[1].flags = {"throttled"};
  const json rows = rows_of(json::parse(gbench_text(report)), "iteration");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[3]["error_message"], "fewer than half of its forks are clean: throttled");
}

}  // namespace
}  // namespace assay

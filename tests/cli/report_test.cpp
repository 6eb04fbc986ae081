#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/core/text.hpp"
#include "tests/cli/program.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using nlohmann::json;
using test::data_file;
using test::Outcome;
using test::read_text;
using test::run;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string golden() { return data_file("report.json").string(); }

class Show : public ::testing::TestWithParam<std::string> {};

TEST_P(Show, prints_the_golden_report_as_it_did) {
  const Outcome outcome = run({"show", "--format", GetParam(), golden()});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_EQ(outcome.out, read_text(data_file("show." + GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Each, Show, ::testing::Values("console", "markdown", "csv", "gbench"));

TEST(CliCompare, a_report_is_equal_to_itself) {
  const std::string report = data_file("report.json");
  const Outcome same =
      test::assay({.arguments = {"compare", report, report, "--threshold", "10%", "--filter", "onednn"}});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("same of"));
  const Outcome wrong = test::assay({.arguments = {"compare", report, report, "--threshold", "10%"}});
  EXPECT_EQ(wrong.code, 4) << "one of its cells is wrong on both sides: nothing was compared there";
  EXPECT_THAT(wrong.out, HasSubstr("2 unmeasured"));
  const Outcome bad = test::assay({.arguments = {"compare", report, report, "--format=junitt"}});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("did you mean 'junit'?"));
}

TEST(CliCompare, finds_the_baseline_of_the_machine_in_a_folder) {
  const TemporaryFolder folder;
  auto report = json::parse(read_text(golden()));
  report["environment"]["cpu"] = {{"model", "a processor"}, {"architecture", "x86_64"}, {"allowed", 2}};
  const auto now = folder / "now.json";
  std::ofstream(now) << report;
  const auto compare = [&] {
    return test::assay(
        {.arguments = {"compare", folder / "baselines", now, "--threshold=10%", "--filter", "onednn"}});
  };
  std::filesystem::create_directories(folder / "baselines");
  const Outcome none = compare();
  EXPECT_EQ(none.code, 5);
  EXPECT_THAT(none.err, HasSubstr("no baseline of this machine (2 logical CPUs of a processor)"));
  const std::size_t at = none.err.find(" has no report");
  ASSERT_NE(at, std::string::npos);
  const std::string machine = none.err.substr(at - 12, 12);
  std::ofstream(folder / "baselines" / (machine + ".json")) << report;
  EXPECT_EQ(compare().code, 0) << compare().err;
  // A folder of the machine adds to it; the newest ten are taken.
  std::filesystem::create_directories(folder / "baselines" / machine);
  for (int day = 10; day < 20; ++day) {
    report["run"]["start"] = report["run"]["end"] = fmt::format("2030-01-{}T00:00:00Z", day);
    if (day == 10) report["cells"].erase(1);
    std::ofstream(folder / "baselines" / machine / fmt::format("{}.json", day)) << report;
  }
  std::ofstream(folder / "baselines" / machine / "notes.txt") << "not a report";
  const Outcome many = test::assay({.arguments = {"compare", folder / "baselines", now, "--format=json"}});
  EXPECT_EQ(json::parse(many.out)["baselines"], 10) << many.err;
  // Newer ones of another speed do not displace an older one.
  const auto at_speed = [](const std::filesystem::path& file, double loop_seconds) {
    auto changed = json::parse(read_text(file));
    changed["environment"]["cpu"]["loop_seconds"] = loop_seconds;
    std::ofstream(file) << changed;
  };
  at_speed(now, 300e-6);
  at_speed(folder / "baselines" / (machine + ".json"), 300e-6);
  for (int day = 10; day < 20; ++day)
    at_speed(folder / "baselines" / machine / fmt::format("{}.json", day), 350e-6);
  EXPECT_EQ(compare().code, 0) << compare().err;
  EXPECT_THAT(compare().out, HasSubstr("left out 9 of 10 baselines: the time of a fixed loop"));
}

TEST(CliCompare, TakesSeveralBaselinesInAnyOrder) {
  const TemporaryFolder folder;
  const Outcome several =
      run({"compare", golden(), golden(), golden(), "--filter", "onednn", "--format", "json"});
  EXPECT_EQ(json::parse(several.out)["baselines"], 2);
  const Outcome one = run({"compare", golden()});
  EXPECT_EQ(one.code, 2);
  const Outcome word = run({"compare", golden(), golden(), "--allow", "procesor"});
  EXPECT_EQ(word.code, 2);
  EXPECT_THAT(word.err, HasSubstr("did you mean 'processor'?"));
  const Outcome library = run({"compare", golden(), golden(), "--allow", "libraries:onedn"});
  EXPECT_EQ(library.code, 2);
  EXPECT_THAT(library.err, HasSubstr("did you mean 'onednn'?"));
  const Outcome detect = run({"compare", golden(), golden(), "--detect", "5%"});
  EXPECT_EQ(detect.code, 2);
  EXPECT_THAT(detect.err, HasSubstr("is not above --threshold"));
}

// The golden report as if it had been made now, by another commit where one is named.
std::string golden_of_today(const TemporaryFolder& folder, const char* commit = nullptr) {
  auto report = json::parse(read_text(golden()));
  report["run"]["start"] = report["run"]["end"] = utc_now();
  if (commit) report["run"]["commit"] = commit;
  const auto file = folder / (commit ? "other.json" : "today.json");
  std::ofstream(file) << report;
  return file;
}

TEST(CliShow, RefusesAFilterOfWhichATextMatchesNothing) {
  for (const char* filter : {"mxnt", "onednn,mxnt"}) {
    const Outcome outcome = run({"show", golden(), "--filter", filter});
    EXPECT_EQ(outcome.code, 2) << filter;
    EXPECT_THAT(outcome.err, HasSubstr("--filter got 'mxnt': no cell has it in its id"));
  }
  const Outcome empty = run({"show", golden(), "--filter", ""});
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.err, HasSubstr("leave --filter out for all cells"));
}

TEST(CliCompare, reads_a_calibration_and_refuses_that_of_another_machine) {
  const TemporaryFolder folder;
  const std::string report = golden_of_today(folder), file = folder / "c.json";
  const Outcome made = run({"calibrate", "--from", report, report, "--out", file});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("five baselines"));
  const Outcome used = run({"compare", report, report, "--calibration", file, "--filter", "onednn"});
  EXPECT_THAT(used.out, HasSubstr("also known from the calibration of this machine"));
  auto other = json::parse(read_text(file));
  other["fingerprint"] = "0123456789ab";
  std::ofstream(file) << other;
  const Outcome refused = run({"compare", report, report, "--calibration", file});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("is the calibration of another machine"));
}

TEST(CliCalibrate, AddsASessionAndRefusesAnotherBuild) {
  const TemporaryFolder folder;
  const std::string report = golden_of_today(folder), file = folder / "c.json";
  for (const std::size_t sessions : {1U, 2U, 3U}) {
    const Outcome made = run({"calibrate", "--append", "--from", report, report, "--out", file});
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(json::parse(read_text(file))["sessions"].size(), sessions);
  }
  EXPECT_EQ(run({"calibrate", "--append", "--from", report, "--out", file}).code, 0) << "one run more";
  EXPECT_EQ(json::parse(read_text(file))["cells"][0]["runs"], 7);
  const Outcome used = run({"compare", report, report, "--calibration", file, "--filter", "onednn"});
  EXPECT_THAT(used.out, HasSubstr("4 sessions from"));
  const Outcome refused =
      run({"calibrate", "--append", "--from", golden_of_today(folder, "abd"), "--out", file});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("the commit of the program was abc and is abd"));
  EXPECT_EQ(json::parse(read_text(file))["sessions"].size(), 4U) << "the calibration is as it was";
  EXPECT_EQ(run({"calibrate", "--append", "--from", report, "--out", "-"}).code, 2);
}

TEST(CliCompare, LeavesOutOldSessionsOfACalibration) {
  const TemporaryFolder folder;
  const std::string report = golden_of_today(folder), file = folder / "c.json";
  EXPECT_EQ(run({"calibrate", "--from", report, report, "--out", file}).code, 0);
  EXPECT_EQ(run({"calibrate", "--append", "--from", report, report, "--out", file}).code, 0);
  const auto compared = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"compare", report, report, "--calibration", file, "--filter", "onednn"});
    return run(more);
  };
  auto calibration = json::parse(read_text(file));
  calibration["sessions"][0]["made"] = "2020-01-01T00:00:00Z";
  std::ofstream(file) << calibration;
  EXPECT_THAT(compared({}).out, HasSubstr("without 1 of its 2 sessions"));
  calibration["sessions"][1]["made"] = "2020-01-01T00:00:00Z";
  std::ofstream(file) << calibration;
  EXPECT_EQ(compared({}).code, 2);
  EXPECT_THAT(compared({}).err, HasSubstr("calibrate again"));
}

TEST(CliCompare, AsksForAPercentSignAboveOne) {
  const Outcome refused = run({"compare", golden(), golden(), "--threshold", "5"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("5% or 500%"));
  const std::vector<std::string> meant{"compare", golden(), golden(), "--filter", "onednn", "--threshold"};
  for (const char* threshold : {"0.1", "10%", "500%"}) {
    auto arguments = meant;
    arguments.emplace_back(threshold);
    EXPECT_EQ(run(arguments).code, 0) << threshold;
  }
}

TEST(CliEnv, prints_only_the_fingerprint) {
  const Outcome outcome = run({"env", "--fingerprint"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out.size(), 13U) << outcome.out;
}

TEST(CliAb, refuses_sides_that_make_no_pairs_and_misspelt_options) {
  const Outcome misspelt = run({"ab", "--workload", "mlp", "--a", "backnd=onednn"});
  EXPECT_EQ(misspelt.code, 2);
  EXPECT_THAT(misspelt.err, HasSubstr("the sides must not differ in"));
  const Outcome time = run({"ab", "--workload", "mlp", "--max-time", "soon"});
  EXPECT_EQ(time.code, 2);
  EXPECT_THAT(time.err, HasSubstr("a time such as 90s, 30m or 2h"));
  const Outcome pairs =
      run({"ab", "--workload", "mlp", "--backend", "reference", "--mode", "graph", "--dry-run"});
  EXPECT_EQ(pairs.code, 0) << pairs.err;
  EXPECT_THAT(pairs.out, HasSubstr("mlp/reference/cpu/graph/"));
}

TEST(CliShow, reads_standard_input_and_several_reports) {
  const Outcome piped = test::assay({.arguments = {"show", "-"}, .input = read_text(golden())});
  EXPECT_EQ(piped.code, 0);
  EXPECT_EQ(piped.out, read_text(data_file("show.console")));
  const Outcome two = run({"show", "--format", "csv", golden(), golden()});
  EXPECT_EQ(two.code, 0);
  const Outcome one_context = run({"show", "--format", "gbench", golden(), golden()});
  EXPECT_EQ(one_context.code, 2);
}

TEST(CliShow, refuses_a_file_that_is_not_a_report_in_one_line) {
  const test::TemporaryFolder folder;
  const auto expect = [&](const std::string& text, const char* said) {
    const Outcome outcome = run({"show", folder.file("r.json", text)});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, HasSubstr(said));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  expect("", "r.json: not valid JSON");
  expect("[]", "not an Assay report");
  expect(R"({"schema": "assay-report/9"})", "use the Assay that wrote it");
  expect(R"({"schema": "assay-report/1", "run": {}, "environment": {}, "cells": [{}]})", "/cells/0");
  expect(std::string(100'000, '['), "nested more than");
  expect(R"({"schema": "assay-report/1", "schema": 1})", "duplicate key");
  EXPECT_EQ(run({"show", "/no/such/report.json"}).code, 2);
  EXPECT_EQ(run({"show", "/"}).code, 2);
}

TEST(CliShow, says_that_a_full_disk_took_nothing) {
  const Outcome outcome = test::assay({.arguments = {"show", golden()}, .redirect_out = "/dev/full"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("No space left"));
}

TEST(CliValidate, accepts_the_golden_report) {
  const Outcome outcome = run({"validate", golden()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("valid (assay-report/2)"));
}

TEST(CliValidate, names_violations_of_the_schema) {
  const test::TemporaryFolder folder;
  json report = json::parse(read_text(golden()));
  report["cells"][1]["axes"]["batch"] = 0;
  report["cells"][0]["colour"] = "red";
  const std::string file = folder.file("r.json", report.dump());
  const Outcome outcome = run({"validate", file});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("cells/1/axes/batch"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("colour")));
  EXPECT_THAT(run({"validate", "--strict", file}).err, HasSubstr("colour"));
}

TEST(CliValidate, names_violations_of_an_invariant) {
  const test::TemporaryFolder folder;
  json report = json::parse(read_text(golden()));
  report["cells"][0]["metrics"]["step_time"]["upper"] = 0.001;
  const Outcome outcome = run({"validate", folder.file("r.json", report.dump())});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("step_time: upper is 0.001, but the raw numbers of its forks give 0.0021"));
}

TEST(CliValidate, reads_every_report_though_the_first_is_bad) {
  const test::TemporaryFolder folder;
  const Outcome outcome = run({"validate", folder.file("r.json", "{}"), golden()});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("report.json: valid"));
}

TEST(CliValidate, writes_version_1_in_todays_version) {
  const TemporaryFolder folder;
  const std::string old =
      (std::filesystem::path(ASSAY_SCHEMA_FILE) / "../../../tests/reports/1-first.json").lexically_normal();
  const std::string upgraded = folder / "2.json";
  EXPECT_EQ(run({"validate", "--upgrade", upgraded, old}).code, 0);
  EXPECT_EQ(json::parse(read_text(upgraded))["schema"], "assay-report/2");
  EXPECT_EQ(run({"validate", "--strict", upgraded}).code, 0);
  EXPECT_EQ(run({"show", "--format", "csv", upgraded}).out, run({"show", "--format", "csv", old}).out);
  EXPECT_EQ(run({"validate", "--upgrade", upgraded, old, old}).code, 2);
}

TEST(CliValidate, prints_the_schema_of_the_tree) {
  EXPECT_EQ(run({"validate", "--schema"}).out, read_text(ASSAY_SCHEMA_FILE));
  EXPECT_EQ(run({"validate"}).code, 2);
}

}  // namespace
}  // namespace assay

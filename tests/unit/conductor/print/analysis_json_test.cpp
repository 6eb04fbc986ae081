#include "harness/conductor/print/printers.hpp"

#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/print/questions.hpp"
#include "harness/core/error.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/report/metric_table.hpp"
#include "tests/unit/report/sample_report.hpp"
#include "tests/unit/report/schema_check.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

Json analyzed(const Report& report) { return parse_strict_json(analysis_text(analyze(report)), "analysis"); }

TEST(AnalysisJson, HoldsRatiosRanksAndGroups) {
  const Json json = analyzed(test::sample_report(6));
  EXPECT_EQ(json["schema"], analysis_schema);
  ASSERT_EQ(json["groups"].size(), 1u);
  EXPECT_EQ(json["groups"][0]["in_rank"], Json::array({0, 1}));
  EXPECT_EQ(json["groups"][0]["baselines"], Json::array({0}));
  EXPECT_EQ(json["groups"][0]["heading"]["title"], "lenet5, training, batch 200");
  EXPECT_EQ(json["families"][0]["heading"]["title"], "lenet5, training");
  const Json& torch = json["cells"][1];
  EXPECT_EQ(torch["rank"], 2);
  EXPECT_EQ(torch["base"], 0);
  EXPECT_EQ(torch["taxed"], true);
  EXPECT_NEAR(torch["ratio"]["value"].get<double>(), 4, 1e-9);
  EXPECT_EQ(torch["ratio"]["n"], 6);
  EXPECT_EQ(torch["metrics"]["gpu_utilisation"]["value"], nullptr);
  EXPECT_EQ(torch["axes"]["batch"], 200);
  ASSERT_EQ(torch["forks"].size(), 6u);
  EXPECT_EQ(torch["forks"][0]["evaluations"][0]["split"], "test");
}

// The first cell at three batches, with the same time.
Report three_batches() {
  Report report = test::sample_report(2);
  report.cells.resize(1);
  for (const std::int64_t batch : {400, 800}) {
    CellReport cell = report.cells[0];
    cell.axes.batch = batch;
    cell.id = cell_id(cell.axes);
    report.cells.push_back(std::move(cell));
  }
  return report;
}

TEST(AnalysisJson, HoldsHowTimesGrowWithTheBatch) {
  const Json growth = analyzed(three_batches())["families"][0]["growth"];
  ASSERT_EQ(growth.size(), 1u);
  EXPECT_EQ(growth[0]["series"], "onednn graph");
  EXPECT_EQ(growth[0]["sizes"], 3);
  EXPECT_EQ(growth[0]["largest"], 800);
  EXPECT_NEAR(growth[0]["doubling"]["value"].get<double>(), 1, 1e-9);
  EXPECT_NEAR(growth[0]["each"]["value"].get<double>(), 0, 1e-12);
}

TEST(AnalysisJson, HoldsTheTimeToAnAccuracyWhereOneIsAskedFor) {
  Report report = test::sample_report(1);
  report.cells[0].forks[0].evaluations[0].epoch = 1;
  const Analysis all = analyze(report);
  EXPECT_FALSE(parse_strict_json(analysis_text(all), "analysis")["cells"][0].contains("time_to_accuracy"));
  const Json cells = parse_strict_json(analysis_text(all, {}, 0.8), "analysis")["cells"];
  EXPECT_EQ(cells[0]["time_to_accuracy"]["reached"], 1);
  EXPECT_EQ(cells[0]["time_to_accuracy"]["split"], "test");
  EXPECT_EQ(cells[1]["time_to_accuracy"], nullptr) << "evaluated after steps";
  const Json missed = parse_strict_json(analysis_text(all, {}, 0.99), "analysis")["cells"][0];
  EXPECT_EQ(missed["time_to_accuracy"]["value"], nullptr);
}

TEST(AnalysisJson, HoldsTheMetricTable) {
  const Json json = analyzed(test::sample_report(1));
  ASSERT_EQ(json["metrics"].size(), metric_table().size());
  EXPECT_EQ(json["metrics"][0]["name"], "step_time");
  EXPECT_EQ(json["metrics"][0]["better"], "lower");
}

TEST(AnalysisJson, SaysWhyACellIsNotRanked) {
  Report report = test::sample_report(2);
  report.cells[0].flags = {"throttled"};
  EXPECT_THAT(analyzed(report)["groups"][0]["notes"].dump(),
              HasSubstr("onednn graph is not ranked: the GPU lowered its clocks."));
}

TEST(AnalysisJson, StaysStrictAndALineForEachCellWhateverAReportHolds) {
  Report report = test::sample_report(1);
  report.cells[0].reason = "two\nlines \xff and \"cells\": [";
  report.cells[0].equivalence.tensors[0].ratio = std::nan("");
  report.cells[1].forks[0].compile_seconds = HUGE_VAL;
  const std::string text = analysis_text(analyze(report));
  const Json json = parse_strict_json(text, "analysis");
  EXPECT_EQ(json["cells"][0]["equivalence"]["tensors"][0]["ratio"], nullptr);
  std::istringstream lines(text.substr(text.find("\n\"cells\": [\n") + 12));
  std::string line;
  for (const char* end : {",", ""}) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_TRUE(line.starts_with("{") && line.ends_with(std::string("}") + end)) << line;
  }
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "]}");
}

Json answers(const Report& report, const std::vector<std::string>& questions) {
  const Analysis all = analyze(report);
  return parse_strict_json(analysis_text(all, read_questions(questions, all)), "analysis")["answers"];
}

TEST(AnalysisJson, AnswersWithPairedRatiosAndValues) {
  const Json found =
      answers(test::sample_report(6), {"step_time,1,0", "step_time,0", "step_time/step_time,1,1"});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0]["cell"], 1);
  EXPECT_EQ(found[0]["other"], 0);
  EXPECT_NEAR(found[0]["measured"]["value"].get<double>(), 4, 1e-9);
  EXPECT_EQ(found[0]["measured"]["n"], 6);
  EXPECT_FALSE(found[0]["measured"]["lower"].is_null());
  EXPECT_EQ(found[1]["other"], nullptr);
  EXPECT_EQ(found[1]["measured"]["n"], 6);
  EXPECT_LT(found[1]["measured"]["least"], found[1]["measured"]["greatest"]);
  EXPECT_EQ(found[2]["measured"]["least"], 1.0);
}

TEST(AnalysisJson, AnswersNothingWhereAValueIsMissing) {
  const Json found = answers(test::sample_report(6), {"gpu_utilisation,0,1", "gpu_utilisation,0"});
  EXPECT_EQ(found[0]["measured"], nullptr);
  EXPECT_EQ(found[1]["measured"], nullptr);
}

TEST(AnalysisJson, DoesNotPairCellsOfTwoReports) {
  const std::vector<Report> reports{test::sample_report(6), test::sample_report(6)};
  const Analysis all = analyze(reports, std::vector<std::string>{"a", "b"});
  const std::optional<PairedRatio> ratio = answer_to(all, {.metric = "step_time", .cell = 1, .other = 2});
  ASSERT_TRUE(ratio);
  EXPECT_NEAR(ratio->value, 4, 0.1);
  EXPECT_EQ(ratio->n, 0);
  EXPECT_FALSE(ratio->lower);
}

TEST(AnalysisJson, RefusesQuestionsThatItCannotRead) {
  for (const auto& [text, why] :
       std::vector<std::pair<std::string, std::string>>{{"step_time", "one or two cells"},
                                                        {"step_tim,0", "did you mean 'step_time'"},
                                                        {"step_time,9", "unknown cell 9"},
                                                        {"step_time,-1", "not the place of a cell"},
                                                        {"step_time,0x", "not the place of a cell"},
                                                        {"step_time,", "not the place of a cell"},
                                                        {"step_time/epoch_time,0", "needs two cells"},
                                                        {"a/b/c,0,1", "more than two metrics"}}) {
    try {
      answers(test::sample_report(1), {text});
      ADD_FAILURE() << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(why)) << text;
    }
  }
}

TEST(AnalysisJson, HoldsTheProfileByOp) {
  Report report = test::sample_report(2);
  Fork& first = report.cells[0].forks[0];
  first.operators = {{.node = "a", .op = "relu", .seconds = 4, .calls = 4},
                     {.node = "b", .op = "linear", .seconds = 9, .calls = 3},
                     {.node = "c", .op = "relu", .seconds = 2, .calls = 1},
                     {.node = "d", .op = "relu", .seconds = 0, .calls = 0}};
  report.cells[0].forks[1].operators = {{.node = "a", .op = "relu", .seconds = 8, .calls = 8}};
  EXPECT_EQ(analyzed(report)["cells"][0]["operators"],
            Json::parse(R"([{"op": "relu", "seconds": 2.0}, {"op": "linear", "seconds": 1.5}])"));
}

TEST(AnalysisJson, OfNoCellsIsWhole) { EXPECT_EQ(analyzed({})["cells"], Json::array()); }

// With every optional part.
Json full_analysis() {
  Report report = test::sample_report(6);
  Fork& fork = report.cells[0].forks[0];
  fork.evaluations.push_back({.epoch = 1, .split = DataSplit::train, .samples = 1});
  fork.operators = {{.node = "a", .op = "relu", .seconds = 4, .calls = 4}};
  const Analysis all = analyze(report);
  return parse_strict_json(analysis_text(all, read_questions({"step_time,0,1"}, all), 0.8), "analysis");
}

TEST(AnalysisSchema, AcceptsWhatIsWritten) {
  const std::string schema = analysis_schema_text();
  EXPECT_THAT(test::schema_violations(full_analysis(), schema), IsEmpty());
  EXPECT_THAT(test::schema_violations(analyzed(three_batches()), schema), IsEmpty());
  EXPECT_THAT(test::schema_violations(analyzed({}), schema), IsEmpty());
}

TEST(AnalysisSchema, RefusesAMissingFieldAndAnotherType) {
  const std::string schema = analysis_schema_text();
  for (const char* place :
       {"/schema", "/cells/0/rank", "/cells/0/ratio/n", "/groups/0/in_rank", "/answers/0/measured",
        "/cells/0/forks/0/evaluations/0/after_seconds", "/cells/0/metrics/step_time/value"}) {
    const Json::json_pointer at(place);
    Json json = full_analysis();
    ASSERT_TRUE(json.contains(at)) << place;
    json[at] = "text";
    EXPECT_THAT(test::schema_violations(json, schema), Not(IsEmpty())) << place;
    json[at.parent_pointer()].erase(at.back());
    EXPECT_THAT(test::schema_violations(json, schema), Not(IsEmpty())) << place;
  }
}

TEST(AnalysisSchema, IsTheOneInTheTree) {
  const std::string path = ASSAY_SOURCE_DIR "/results/schema/analysis-1.schema.json";
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, analysis_schema_text()) << "write it with: assay validate --analysis-schema > " << path;
}

}  // namespace
}  // namespace assay

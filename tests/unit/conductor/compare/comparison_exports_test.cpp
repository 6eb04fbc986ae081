#include "harness/conductor/compare/comparison_exports.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/print/printers.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Comparison sample() {
  Comparison comparison;
  comparison.threshold = 0.05;
  comparison.confidence = 0.95;
  comparison.cell_confidence = 0.975;
  comparison.compared = 2;
  CellVerdict slower;
  slower.id = "lenet5/<b>&\"x\"";
  slower.verdict = Verdict::slower;
  slower.metric = "step_time";
  slower.unit = "s";
  slower.hint = Hint::duration;
  slower.base = 2e-3;
  slower.current = 2.6e-3;
  slower.base_forks = slower.current_forks = 12;
  slower.ratio = 1.3;
  slower.lower = 1.27;
  slower.upper = 1.33;
  slower.confidence = 0.98;
  CellVerdict missing;
  missing.id = "mlp";
  missing.verdict = Verdict::missing;
  missing.reason = "only the baseline has it,\nok";
  CellVerdict same = slower;
  same.id = "cnn";
  same.verdict = Verdict::same;
  same.ratio = 1.001;
  comparison.cells = {slower, missing, same};
  comparison.environment = {{"the processor", "one", "another", true, DifferenceKind::processor}};
  return comparison;
}

TEST(ComparisonExports, json_has_each_number_and_null_for_absent_ones) {
  const auto json = comparison_json(sample(), 5);
  EXPECT_EQ(json["schema"], "assay-comparison/1");
  EXPECT_EQ(json["exit_code"], 5);
  EXPECT_EQ(json["comparable"], false);
  EXPECT_EQ(json["cells"][0]["ratio"], 1.3);
  EXPECT_EQ(json["cells"][0]["base"]["forks"], 12);
  EXPECT_TRUE(json["cells"][1]["ratio"].is_null());
  EXPECT_EQ(json["counts"]["slower"], 1);
}

TEST(ComparisonExports, junit_counts_and_escapes) {
  const std::string xml = comparison_junit(sample());
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\""));
  EXPECT_THAT(xml, HasSubstr("name=\"lenet5/&lt;b&gt;&amp;&quot;x&quot;\""));
  EXPECT_THAT(xml, Not(HasSubstr("<b>")));
  EXPECT_THAT(xml, HasSubstr("<failure type=\"slower\" message=\"slower, step_time is 1.300 times"));
}

TEST(ComparisonExports, annotations_stay_on_one_line) {
  const std::string text = comparison_annotations(sample());
  EXPECT_THAT(text, HasSubstr("::error title=lenet5/<b>&\"x\"::slower, step_time is 1.300"));
  EXPECT_THAT(text, HasSubstr("::error title=environments are not comparable::"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

TEST(ComparisonExports, markdown_folds_the_calm_away_and_stays_below_githubs_limit) {
  Comparison comparison = sample();
  const std::string small = comparison_markdown(comparison);
  EXPECT_THAT(small, HasSubstr("<!-- assay compare -->"));
  EXPECT_THAT(small, HasSubstr("<details><summary>1 the same</summary>"));
  EXPECT_THAT(small, Not(HasSubstr("<b>")));
  CellVerdict cell = comparison.cells[0];
  cell.id = std::string(900, 'x');
  for (int i = 0; i < 500; ++i) comparison.cells.push_back(cell);
  EXPECT_LT(comparison_markdown(comparison).size(), 65'000U);
}

TEST(ComparisonExports, tables_say_the_verdict_in_words) {
  const std::string text = console(comparison_tables(sample()), {});
  EXPECT_THAT(text, HasSubstr("slower"));
  EXPECT_THAT(text, HasSubstr("[1.270, 1.330]"));
  EXPECT_THAT(text, HasSubstr("1 slower, 1 missing, 1 same of 3 cells; threshold 5 %"));
  EXPECT_THAT(text, HasSubstr("--allow processor"));
}

TEST(ComparisonExports, SayWhatWouldHaveBeenFoundAndWhatAllCellsShare) {
  Comparison comparison = sample();
  comparison.detect = 0.10;
  comparison.cells[2].detectable = 0.081;
  comparison.shift = SharedShift{.ratio = 1.08, .lower = 1.01, .upper = 1.15, .cells = 12, .loop = 1.07};
  EXPECT_THAT(summary_line(comparison),
              HasSubstr("a change of 8.1 % in one cell would have been found with 80 %"));
  const std::string text = console(comparison_tables(comparison), {});
  EXPECT_THAT(text, HasSubstr("All 12 cells are 8.0 % slower together [+1.0, +15.0]"));
  EXPECT_THAT(text, HasSubstr("a fixed loop on the processor is 7.0 % slower"));
  EXPECT_THAT(text, HasSubstr("--allow shift"));
  const auto json = comparison_json(comparison, 6);
  EXPECT_EQ(json["shift"]["ratio"], 1.08);
  EXPECT_EQ(json["shifted"], true);
  EXPECT_EQ(json["cells"][2]["detectable"], 0.081);
  EXPECT_THAT(comparison_annotations(comparison), HasSubstr("::warning title=assay compare::All 12 cells"));
}

}  // namespace
}  // namespace assay

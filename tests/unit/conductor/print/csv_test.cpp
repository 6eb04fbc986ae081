#include "harness/conductor/print/printers.hpp"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>

#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;

// A reader of RFC 4180, so that the writer is tested by another's rules.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows{{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string& field = rows.back().back();
    const char c = text[i];
    if (quoted) {
      if (c != '"')
        field += c;
      else if (i + 1 < text.size() && text[i + 1] == '"')
        field += text[++i];
      else
        quoted = false;
    } else if (c == '"' && field.empty()) {
      quoted = true;
    } else if (c == ',') {
      rows.back().emplace_back();
    } else if (c == '\n') {
      rows.push_back({""});
    } else {
      field += c;
    }
  }
  rows.pop_back();
  return rows;
}

TEST(Csv, has_one_full_row_per_cell_and_metric) {
  Report report = test::sample_report(6);
  report.cells[1].status = Status::crashed;
  report.cells[1].reason = "said \"no\",\nthen died";
  report.cells[1].metrics.clear();
  const auto rows = parse_csv(csv({report}));
  ASSERT_EQ(rows.size(), 1 + report.cells[0].metrics.size() + 1);
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(rows[0].begin(), rows[0].end(), name) - rows[0].begin());
  };
  EXPECT_EQ(rows.back()[column("reason")], "said \"no\", then died");
  EXPECT_EQ(rows.back()[column("status")], "crashed");
  EXPECT_EQ(rows.back()[column("metric")], "");
  const auto step = std::find_if(rows.begin(), rows.end(),
                                 [&](const auto& row) { return row[column("metric")] == "step_time"; });
  ASSERT_NE(step, rows.end());
  EXPECT_EQ(std::stod((*step)[column("value")]), *report.cells[0].metrics["step_time"].value);
  EXPECT_EQ((*step)[column("n")], "6");
  const auto gpu = std::find_if(rows.begin(), rows.end(),
                                [&](const auto& row) { return row[column("metric")] == "gpu_utilisation"; });
  EXPECT_EQ((*gpu)[column("value")], "");
  EXPECT_EQ((*gpu)[column("null_reason")], "no GPU on this machine");
}

TEST(Csv, quotes_as_in_rfc_4180) {
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"hi\""), "\"say \"\"hi\"\"\"");
}

TEST(Csv, keeps_a_row_a_line_and_gives_a_terminal_nothing_to_obey) {
  EXPECT_EQ(csv_field("two\nlines"), "two lines");
  EXPECT_EQ(csv_field("\x1b]0;title\x07"), " ]0;title ");
}

TEST(Csv, gives_a_spreadsheet_no_formula_to_run) {
  EXPECT_EQ(csv_field("=HYPERLINK(\"http://x\")"), "\"'=HYPERLINK(\"\"http://x\"\")\"");
  for (const char* text : {"+1", "-1", "@sum", "\tx", "\rx"})
    EXPECT_THAT(csv_field(text), HasSubstr("'")) << text;
}

}  // namespace
}  // namespace assay

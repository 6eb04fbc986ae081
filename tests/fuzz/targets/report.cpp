// A report: what validate, show, compare, calibrate and --resume do with the file.
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/compare/comparison_exports.hpp"
#include "harness/conductor/config/config.hpp"
#include "harness/conductor/print/printers.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/conductor/run/cell_report.hpp"
#include "harness/core/error.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/report_json.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_report {
namespace {

void require_same_again(const Report& report) {
  const std::string written = report_text(report);
  const Report again = parse_report(written, "again");
  require(report_text(again) == written, "what is written again is the same");
}

void require_json(const std::string& text) { parse_strict_json(text, "output", {.depth = 64}); }

template <typename Show>
void show_with(Show show) {
  try {
    show();
  } catch (const Error&) {
  }
}

void show_all(const Report& report) {
  show_with([&] {
    const std::vector<Table> tables = summary(report);
    console(tables, {.colour = true, .utf8 = false, .width = 80});
    markdown(tables);
  });
  show_with([&] {
    const Analysis all = analyze(report);
    require_json(analysis_text(all));
    for (const AnalyzedGroup& group : all.groups) console(loss_curves(all, group), {});
  });
  for (const CellReport& cell : report.cells) console(equivalence_table(cell), {});
  csv({report});
  require_json(gbench_text(report));
}

void compare_with_itself(const Report& report) {
  const Comparison comparison = compare(report, report, {});
  for (const CellVerdict& cell : comparison.cells)
    require(cell.verdict != Verdict::slower && cell.verdict != Verdict::faster,
            "a report is as fast as itself");
  comparison_tables(comparison);
  comparison_markdown(comparison);
  comparison_junit(comparison);
  comparison_annotations(comparison);
  require_json(strict_json_text(comparison_json(comparison, 0)));
}

void resume(const Report& report) {
  protocol::Hello hello;
  hello.libraries = {{"oneDNN", "3.2.0", ""}};
  for (const CellReport& cell : report.cells) {
    CellReport row = cell;
    row.status = Status::interrupted;
    row.forks.clear();
    take_earlier(row, report);
    other_library(row, hello);
    take_hello(row, hello);
  }
  config_from_json(report.run.config, "fuzz");
}

const Registration here("report", [](Input input) {
  const nlohmann::json document = parse_strict_json(text_of(input), "fuzz");
  std::vector<std::string> violations;
  report_from(document, "fuzz", true, violations);
  require(violations.size() <= 20, "as many violations as are kept");
  const Report report = report_from(document, "fuzz");
  require_same_again(report);
  invariant_violations(report);
  show_all(report);
  compare_with_itself(report);
  show_with([&] { calibrate(std::vector<Report>{report, report}, {}); });
  machine_fingerprint(report.environment);
  show_with([&] { resume(report); });
});

}  // namespace
}  // namespace assay::fuzz::of_report

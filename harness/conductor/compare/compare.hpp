// Two reports, cell by cell: what got faster, slower, or broke.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/compare/cell_judge.hpp"
#include "harness/conductor/compare/environment_difference.hpp"
#include "harness/conductor/compare/verdict.hpp"

namespace assay {

struct CompareSettings {
  double threshold = 0.05;
  // That all intervals hold together (Bonferroni: each cell is judged at 1 - (1 - confidence) / cells).
  double confidence = 0.99;
  std::string metric;  // empty: main_metric() of each cell
  std::string filter;  // of is_wanted()
  BreakageSettings breakage;
  // Standard deviation of ln(time) between runs by cell id, from a calibration; "" holds for all others.
  std::map<std::string, double, std::less<>> between_runs;
};

struct Comparison {
  std::string title = "assay compare";
  std::vector<std::string> notes;  // sentences for the reader
  std::vector<CellVerdict> cells;  // what needs attention first, then by ratio, then by id
  std::vector<EnvironmentDifference> environment;
  double threshold = 0, confidence = 0, cell_confidence = 0;
  int judged = 0;  // cells with statistics

  int count(Verdict verdict) const;
  bool comparable() const;  // no hard difference
};

// Pure. Throws ConfigError when the metric is none, or both reports are without a cell that passes the
// filter.
Comparison compare(const Report& base, const Report& current, const CompareSettings& settings);

// What needs attention first, then by ratio.
void sort_by_attention(std::vector<CellVerdict>& cells);

// Precedence: not comparable (5) unless allowed, slower or broken (3), missing or failed on both sides
// (4; a comparison that judged no cell is incomplete as well), inconclusive (6) where asked for, else 0.
int exit_code(const Comparison& comparison, bool allow_environment, bool fail_on_inconclusive);
// One line: "2 slower, 1 missing, 17 same of 20 cells at 95 % together (99.75 % each), threshold 5 %".
std::string summary_line(const Comparison& comparison);

}  // namespace assay

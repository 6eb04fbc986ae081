// Two reports, cell by cell: what got faster, slower, or broke.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/compare/cell_judge.hpp"
#include "harness/conductor/compare/doubt.hpp"
#include "harness/conductor/compare/verdict.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay {

struct CompareSettings {
  double threshold = usual_threshold;
  // That all intervals hold together (Bonferroni: each cell is judged at 1 - (1 - confidence) / cells).
  double confidence = usual_confidence;
  std::string metric;  // empty: main_metric() of each cell
  std::string filter;  // of is_wanted()
  BreakageSettings breakage;
  std::set<Overlooked> overlooked{};
  // From a calibration, by metric.
  std::map<std::string, RunSpreads, std::less<>> between_runs{};
};

struct Comparison {
  std::string title = "assay compare";
  std::vector<std::string> notes;  // sentences for the reader
  std::vector<CellVerdict> cells;  // what needs attention first, then by ratio, then by id
  std::vector<EnvironmentDifference> environment;
  double threshold = 0, confidence = 0, cell_confidence = 0;
  int judged = 0;  // cells with statistics
  std::set<Overlooked> overlooked{};

  int count(Verdict verdict) const;
  // No hard difference, or none that counts.
  bool comparable() const;
};

// Pure. Throws ConfigError when the metric is none, or both reports are without a cell that passes the
// filter.
Comparison compare(const Report& base, const Report& current, const CompareSettings& settings);

// What needs attention first, then by ratio.
void sort_by_attention(std::vector<CellVerdict>& cells);

// Precedence: not comparable (5), slower or broken (3), missing or failed on both sides (4; a comparison that judged no
// cell is incomplete as well), inconclusive (6), else 0. What is overlooked does not count.
int exit_code(const Comparison& comparison);
// One line: "2 slower, 1 missing, 17 same of 20 cells at 95 % together (99.75 % each), threshold 5 %".
std::string summary_line(const Comparison& comparison);

}  // namespace assay

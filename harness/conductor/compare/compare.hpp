// Compares two reports cell by cell: faster, slower, broken and so on.
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
  // That all intervals hold at once (Bonferroni: each cell is judged at 1 - (1 - confidence) / cells).
  double confidence = usual_confidence;
  std::string metric;  // empty: main_metric() of each cell
  std::string filter;  // see is_wanted()
  BreakageSettings breakage;
  Allowed overlooked{};
  // From a calibration, by metric. Empty: not calibrated.
  std::map<std::string, RunSpreads, std::less<>> between_runs{};
};

struct Comparison {
  std::string title = "assay compare";
  std::vector<std::string> notes;  // sentences for the reader
  std::vector<CellVerdict> cells;  // by urgency of the verdict, then by ratio, then by id
  std::vector<EnvironmentDifference> environment;
  double threshold = 0, confidence = 0, cell_confidence = 0;
  int judged = 0;  // cells with statistics
  Allowed overlooked{};

  int count(Verdict verdict) const;
  // The environments have no hard difference that is not overlooked.
  bool comparable() const;
};

// Pure. Throws ConfigError if the metric is unknown, or if both reports have no cell that passes the filter.
Comparison compare(const Report& base, const Report& current, const CompareSettings& settings);

// Sorts by urgency of the verdict, then by ratio.
void sort_by_attention(std::vector<CellVerdict>& cells);

// One line: "2 slower, 1 missing, 17 same of 20 cells; threshold 5 %, all intervals hold at once with 95 %
// (…)".
std::string summary_line(const Comparison& comparison);

}  // namespace assay

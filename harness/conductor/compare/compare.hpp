// Compares two reports cell by cell: faster, slower, broken and so on.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/conductor/compare/cell_decision.hpp"
#include "harness/conductor/compare/doubt.hpp"
#include "harness/conductor/compare/run_model.hpp"
#include "harness/conductor/compare/time_decision.hpp"
#include "harness/conductor/compare/verdict.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay {

// The runs of the cells of a calibration that have this metric.
struct MetricHistory {
  std::string metric;
  History cells;
};

inline constexpr double usual_detect_factor = 2;  // times the threshold
// What is assumed of the difference between runs of a cell before any baseline is known: 2 %, as if from four degrees of
// freedom.
inline constexpr double prior_run_deviation = 0.02, prior_run_degrees = 4;

struct CompareSettings {
  double threshold = usual_threshold;
  // A cell in which a change of that size would have been found in four of five comparisons is decided; 0: twice the
  // threshold.
  double detect = 0;
  // That all intervals hold at once (Bonferroni: each cell is decided at 1 - (1 - confidence) / cells).
  double confidence = usual_confidence;
  std::string metric;  // empty: main_metric() of each cell
  std::string filter;  // see is_wanted()
  BreakageSettings breakage;
  Allowed overlooked{};
  std::vector<MetricHistory> histories{};  // of a calibration
};

// The shift that all cells share: the machine's, or of something that all of them use.
struct SharedShift {
  double ratio = 1, lower = 1, upper = 1;  // 95 %
  int cells = 0;
  std::optional<double> loop;  // the ratio of the times of a fixed loop on the processor
};

struct Comparison {
  std::string title = "assay compare";
  std::vector<std::string> notes;  // sentences for the reader
  std::vector<CellVerdict> cells;  // by urgency of the verdict, then by ratio, then by id
  std::vector<EnvironmentDifference> environment;
  double threshold = 0, confidence = 0, cell_confidence = 0;
  double detect = 0;  // 0: not planned (`assay ab`)
  int compared = 0;   // cells with statistics
  int baselines = 1;  // that were used
  std::optional<SharedShift> shift;
  Allowed overlooked{};

  int count(Verdict verdict) const;
  // The environments have no hard difference that is not overlooked.
  bool comparable() const;
  // All cells together are slower by the threshold or more, and that is not overlooked.
  bool shifted() const;
};

// Pure. `bases`: one or more baselines, the newest last. A baseline that is not comparable is left out with a note, if
// another one is comparable; a cell leaves out baselines that measured it in another way. Throws ConfigError if the metric
// is unknown, or if the newest baseline and the new report have no cell that passes the filter.
Comparison compare(const std::vector<const Report*>& bases, const Report& current,
                   const CompareSettings& settings);
Comparison compare(const Report& base, const Report& current, const CompareSettings& settings);

// Sorts by urgency of the verdict, then by ratio.
void sort_by_attention(std::vector<CellVerdict>& cells);

// One line: "2 slower, 1 missing, 17 same of 20 cells; a change of 8.1 % in one cell would have been found with 80 %;
// threshold 5 %, all intervals hold at once with 95 % (…)".
std::string summary_line(const Comparison& comparison);

}  // namespace assay

// Values that are derived from the raw forks of a report: the metrics and flags of its cells.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Every metric of the metric table except those of the memory plan, by name: the median of the forks' own
// values, with an exact interval. It is over the forks that count; values that a disturbed machine does not
// change are over all ok forks. A metric is null, with a reason, if one of these forks has no value for it.
// Every metric of a cell that is not ok is null.
Metrics metrics_of(const CellReport& cell);

// The forks of a cell's metric: those that count; for values that a disturbed machine does not change, all ok
// forks; for the compile time, the forks that compiled.
std::vector<const Fork*> forks_of_metric(const CellReport& cell, std::string_view name);

// One fork's own value, before any median; nothing if it has none or the metric is unknown.
std::optional<double> fork_metric(const CellReport& cell, const Fork& fork, std::string_view metric);

// Sets the flags of a cell and its metrics that follow from its forks; keeps the others (planned values).
void derive_from_forks(CellReport& cell);

// Derives the flags and metrics of a report with older rules (Report::rules) again, by the rules of this
// program. Fork flags that no longer exist become warnings. A report with these or newer rules is not
// changed.
void derive_again(Report& report);

}  // namespace assay

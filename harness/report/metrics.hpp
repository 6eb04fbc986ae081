// What is derived from the raw forks of a report: the metrics and flags of its cells.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Every metric of the metric table but those of the memory plan, by name: the median over the forks that count (of what
// a disturbed machine does not change, over all that are ok) of the fork's own value, with an exact interval. A metric
// is null, with a reason, if one of these forks has no value for it. Every metric of a cell that is not ok is null.
Metrics metrics_of(const CellReport& cell);

// The forks that a metric of the cell is over: those that count, of what a disturbed machine does not change all that
// are ok, and of the compile time those that compiled.
std::vector<const Fork*> forks_behind(const CellReport& cell, std::string_view name);

// One fork's own value, before any median; nothing where it has none or there is no such metric.
std::optional<double> fork_metric(const CellReport& cell, const Fork& fork, std::string_view metric);

// Sets the flags of a cell and its metrics that follow from its forks; the others (what was planned) stay.
void derive_from_forks(CellReport& cell);

// Flags and metrics of a report that was made by older rules (Report::rules), derived anew by those of this program.
// Fork flags that the rules no longer have become warnings. A report of these or newer rules is left as it is.
void derive_anew(Report& report);

}  // namespace assay

// From the raw forks of a cell to its metrics.
#pragma once

#include <optional>
#include <string_view>

#include "harness/report/report.hpp"

namespace assay {

// Every metric of the metric table but those of the memory plan, by name, over the clean forks (over all that
// are ok where none is clean): the median of the forks' own values with its exact interval. Null with a reason
// where there is nothing to say. A cell that is not ok has nulls alone.
Metrics metrics_of(const CellReport& cell);

// One fork's own value, before any median; nothing where it has none or there is no such metric.
std::optional<double> fork_metric(const CellReport& cell, const Fork& fork, std::string_view metric);

}  // namespace assay

// From the raw forks of a cell to its metrics.
#pragma once

#include <optional>
#include <string_view>

#include "harness/report/report.hpp"

namespace assay {

// Every metric of the metric table but those of the memory plan, by name: the median over the clean forks (over
// all ok forks where none is clean) of the fork's own value, with an exact interval. A metric is null, with a
// reason, if one of these forks has no value for it. Every metric of a cell that is not ok is null.
Metrics metrics_of(const CellReport& cell);

// One fork's own value, before any median; nothing where it has none or there is no such metric.
std::optional<double> fork_metric(const CellReport& cell, const Fork& fork, std::string_view metric);

}  // namespace assay

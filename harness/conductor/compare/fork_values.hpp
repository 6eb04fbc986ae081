// One number a fork: what the gate compares.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// The metric of each fork that counts, see counted_forks(). Empty where one of them has no such value.
std::vector<double> fork_values(const CellReport& cell, std::string_view metric);

// What a cell is judged by when nothing is asked for: "epoch_time" where epochs are counted and there are two
// or more, "training_time" where there is one, "latency_p50" of a network in task infer, else "step_time".
std::string main_metric(const Axes& axes);

}  // namespace assay

// The report in the shape of google/benchmark's JSON, so that its compare.py and what else reads that format
// can be used.
#pragma once

#include <string>

#include "harness/report/report.hpp"

namespace assay {

// One repetition a fork, named by the cell's id, in nanoseconds a step, then mean, median, stddev and cv over
// the clean forks. A cell that is not ok is a benchmark with error_occurred and its reason. Only clean forks
// are listed.
std::string gbench_text(const Report& report);

}  // namespace assay

// A report that holds together, to be spoilt by a test.
#pragma once

#include "harness/report/report.hpp"

namespace assay::test {

// Two cells of lenet5 (onednn graph, torch compile), `forks` forks each; step times 2 ms + a bit and 8 ms + a
// bit.
Report sample_report(int forks = 6);
// A cell with the given axes and step time (seconds), everything else right.
CellReport sample_cell(const std::string& backend, const std::string& mode, double step_seconds, int forks);

}  // namespace assay::test

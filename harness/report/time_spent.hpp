// How the time of a run was spent.
#pragma once

#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

struct TimeShare {
  std::string name;  // "timed blocks"
  double seconds = 0;
};

// Total seconds of all parts.
double total(const TimeSpent& spent);
// Multiplies every part by `factor`.
void scale(TimeSpent& spent, double factor);

// Wall time over all checks and forks by category, the largest first; leaves out empty categories. Empty if
// the report has no times (it was made by an earlier release).
std::vector<TimeShare> time_spent(const Report& report);

}  // namespace assay

// Where the time of a run went.
#pragma once

#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

struct TimeShare {
  std::string name;  // "timed blocks"
  double seconds = 0;
};

// Seconds of all parts together.
double total(const TimeSpent& spent);
// Makes every part so many times as long.
void scale(TimeSpent& spent, double factor);

// Wall time over all checks and forks, by what it was spent on, the most first; what took nothing is left out. Empty
// where the report does not say (it was made by an earlier release).
std::vector<TimeShare> time_spent(const Report& report);

}  // namespace assay

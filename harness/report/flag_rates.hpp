// How often the forks of each backend have a flag, and whether that depends on the backend.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

struct FlagRate {
  std::string flag{}, backend{};
  int forks = 0;  // ok
  int flagged = 0;
  // The probability of a number as unlikely as `flagged` or more so, if the flags of each round had fallen on any of its
  // forks: Fisher's exact test, stratified by group, session and round. Absent: no round has forks of another backend,
  // of which some are flagged.
  std::optional<double> p{};
  bool differs = false;  // p is below 1 % over the number of backends
};

// Of each flag that drops forks, and `stolen`, if a fork that is ok has it: one row for each backend.
std::vector<FlagRate> flag_rates(const Report& report);

}  // namespace assay

// Why two cells that are ok may not be compared, and the findings that a comparison may overlook.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>

#include "harness/core/words.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Findings that fail a gate unless the user overlooks them with --allow.
enum class Overlooked {
  environment,   // another processor, GPU, share of processors or version
  settings,      // cells that were measured with other settings
  quick,         // a report made with --quick
  flags,         // a cell that the machine disturbed
  inconclusive,  // a cell that is undecided
};
template <>
inline constexpr auto words<Overlooked> =
    std::array{Word{Overlooked::environment, "environment"}, Word{Overlooked::settings, "settings"},
               Word{Overlooked::quick, "quick"}, Word{Overlooked::flags, "flags"},
               Word{Overlooked::inconclusive, "inconclusive"}};

// A cell of a report.
struct Side {
  const Report& report;
  const CellReport& cell;
};

// Describes why these two cells may not be compared; empty if they may. A value that a report of an earlier
// release does not have is not a difference.
std::string doubt_about(const Side& base, const Side& current, const std::set<Overlooked>& overlooked);

// How the cell was measured, by name: the settings of timing and loading, the settings that its forks used,
// and the environment variables that affect speed. Equal values are equal for doubt_about(); a name in only
// one of two cells is not a difference.
std::map<std::string, std::string> measured_as(const Side& side);

}  // namespace assay

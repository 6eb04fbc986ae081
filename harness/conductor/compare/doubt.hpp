// Why the numbers of two cells decide nothing although both are ok, and what a comparison may overlook.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>

#include "harness/core/words.hpp"
#include "harness/report/report.hpp"

namespace assay {

// What a gate refuses unless it is told that this is meant.
enum class Overlooked {
  environment,   // another processor, GPU, share of processors or version
  settings,      // cells that were measured in another way
  quick,         // a report of --quick
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

// In words, why these two cells decide nothing; empty: they may. What a report of an earlier release does not say
// is no difference.
std::string doubt_about(const Side& base, const Side& current, const std::set<Overlooked>& overlooked);

// How the cell was measured, by name: the settings by which it was timed and fed, those that its forks saw, and the
// environment variables that affect speed. Equal texts say what doubt_about() finds equal; a name that only one of two
// cells has is no difference.
std::map<std::string, std::string> measured_as(const Side& side);

}  // namespace assay

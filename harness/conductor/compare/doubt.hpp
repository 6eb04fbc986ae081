// Why two cells that are ok may not be compared, and the findings that a comparison may overlook.
#pragma once

#include <array>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/core/words.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Findings that fail a gate unless the user overlooks them with --allow.
enum class Overlooked {
  processor,     // another processor
  speed,         // a fixed loop took another time on it
  cpus,          // another number or share of processors
  gpu,           // other GPUs
  driver,        // another driver of the GPUs
  libraries,     // other versions of frameworks and vendors' libraries; libraries:NAME for one of them
  settings,      // cells that were measured with other settings
  quick,         // a report made with --quick
  profiled,      // a report made with --profile
  flags,         // a cell that the machine disturbed
  unchecked,     // a cell that was not checked against the oracle
  seeds,         // accuracies of other seeds
  metrics,       // a compared metric that only one side has
  shift,         // all cells together are slower
  inconclusive,  // a cell that is undecided
  environment,   // all differences of machines and libraries at once
};
template <>
inline constexpr auto words<Overlooked> = std::array{Word{Overlooked::processor, "processor"},
                                                     Word{Overlooked::speed, "speed"},
                                                     Word{Overlooked::cpus, "cpus"},
                                                     Word{Overlooked::gpu, "gpu"},
                                                     Word{Overlooked::driver, "driver"},
                                                     Word{Overlooked::libraries, "libraries"},
                                                     Word{Overlooked::settings, "settings"},
                                                     Word{Overlooked::quick, "quick"},
                                                     Word{Overlooked::profiled, "profiled"},
                                                     Word{Overlooked::flags, "flags"},
                                                     Word{Overlooked::unchecked, "unchecked"},
                                                     Word{Overlooked::seeds, "seeds"},
                                                     Word{Overlooked::metrics, "metrics"},
                                                     Word{Overlooked::shift, "shift"},
                                                     Word{Overlooked::inconclusive, "inconclusive"},
                                                     Word{Overlooked::environment, "environment"}};

// What the user overlooks.
class Allowed {
 public:
  Allowed() = default;
  Allowed(std::initializer_list<Overlooked> whole) : whole_(whole) {}
  // "processor", "libraries:torch" (a backend or a library). Throws ConfigError for an unknown word.
  static Allowed parse(const std::vector<std::string>& words);

  bool contains(Overlooked what) const { return whole_.contains(what); }
  // Whether a difference is no reason to refuse the comparison: it is soft, or overlooked.
  bool covers(const EnvironmentDifference& difference) const;
  // Throws ConfigError for a name after "libraries:" that no cell of the reports has loaded.
  void require_known(const std::vector<const Report*>& reports) const;

 private:
  std::set<Overlooked> whole_;
  std::set<std::string> libraries_;
};
// The word of --allow that overlooks the difference: "processor", "libraries:torch".
std::string allowing(const EnvironmentDifference& difference);

// A cell of a report.
struct Side {
  const Report& report;
  const CellReport& cell;
};

// Describes why these two cells may not be compared; empty if they may. A value that a report of an earlier
// release does not have is not a difference.
std::string doubt_about(const Side& base, const Side& current, const Allowed& overlooked);

// How the cell was measured, by name: the settings of timing and loading, the settings that its forks used,
// and the environment variables that affect speed. Equal values are equal for doubt_about(); a name in only
// one of two cells is not a difference.
std::map<std::string, std::string> measured_as(const Side& side);

}  // namespace assay

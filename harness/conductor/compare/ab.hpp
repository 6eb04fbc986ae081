// Measures two sides in one run, round by round, interleaved and in shuffled order, until every pair of cells
// is decided or the time limit is reached.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/conductor/compare/ab_sides.hpp"
#include "harness/conductor/compare/cell_decision.hpp"
#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/run/run.hpp"

namespace assay {

struct AbSettings {
  double threshold = usual_threshold;
  // Confidence that all intervals of all looks hold at once; `slower` is also confirmed by fresh rounds.
  double confidence = usual_confidence;
  double max_seconds = 1800;  // of the whole run; a round that would end later does not begin
  int looks = 5;
  int rounds = 0;      // round of the last look; 0: each look is at 1.5 times the round of the one before
  std::string metric;  // empty: main_metric() of each cell
  BreakageSettings breakage;
};

// One side: a request (its config with the overrides of the side, and the path of its report), the backends of its
// build, and its cells.
struct AbArm {
  RunRequest request;
  Registries registries;
  Expansion cells;
};

struct AbOutcome {
  Comparison comparison;
  Report a, b;
  int rounds = 0;
  double seconds = 0;
  bool out_of_time = false;
  int signal = 0;  // that interrupted the run; 0: none
};

// `machine` returns the environment; it is called after the last round: if the machine changed in the
// meantime (fewer processors, another quota), the times are not comparable. `free`: the options in which the
// sides differ. Throws ConfigError or IoError for errors before anything has run; later failures become
// verdicts.
AbOutcome run_ab(const AbArm& a, const AbArm& b, const std::set<std::string>& free,
                 const AbSettings& settings, const std::function<MachineRecord()>& machine,
                 Progress& progress);

// A warning if --max-time ends before the first look, which is after `first_look` rounds of `round_seconds`;
// else empty.
std::string too_little_time(int first_look, double round_seconds, double max_seconds);

}  // namespace assay

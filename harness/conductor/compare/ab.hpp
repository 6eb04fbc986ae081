// Two sides measured in one run: round by round, interleaved and in shuffled order, until every pair of cells
// is decided or the time is up.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/compare/ab_sides.hpp"
#include "harness/conductor/compare/cell_judge.hpp"
#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/run/run.hpp"

namespace assay {

struct AbSettings {
  double threshold = usual_threshold;
  // That all intervals of all looks hold together; `slower` is confirmed besides.
  double confidence = usual_confidence;
  double max_seconds = 1800;  // of the whole run; no round begins that would end later
  int looks = 5;
  int rounds = 0;      // of the last look; 0: each look half as far again as the one before
  std::string metric;  // empty: main_metric() of each cell
  BreakageSettings breakage;
};

// What is measured on a side: a request (its config laid over with what the side sets, its report's place)
// and the backends of its build.
struct AbArm {
  RunRequest request;
  BackendRegistry registry;
};

struct AbOutcome {
  Comparison comparison;
  Report a, b;
  int rounds = 0;
  double seconds = 0;
  bool out_of_time = false;
  int signal = 0;  // that interrupted it; 0: none
};

// `machine` tells the environment anew after the last round: a machine that became another one meanwhile
// (fewer processors, another quota) makes the times incomparable. `free`: the options in which the sides
// differ. Throws ConfigError or IoError for what is wrong before anything has run; afterwards everything that
// goes wrong is a verdict.
AbOutcome run_ab(const AbArm& a, const AbArm& b, const std::set<std::string>& free,
                 const AbSettings& settings, const std::function<nlohmann::json()>& machine,
                 Progress& progress);

// As exit_code() of a comparison, but what is left undecided is 6 without being asked: the question was
// asked.
int ab_exit_code(const AbOutcome& outcome);

// What a first round of that length lets expect: empty, or a warning that --max-time ends before the first look, which
// is after so many rounds.
std::string too_little_time(int first_look, double round_seconds, double max_seconds);

}  // namespace assay

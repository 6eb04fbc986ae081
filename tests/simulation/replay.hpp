// Recorded forks replayed as the runs that a gate compares.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/conductor/compare/time_judge.hpp"
#include "harness/conductor/compare/verdict.hpp"
#include "harness/core/io/philox.hpp"
#include "tests/simulation/noise.hpp"

namespace assay::simulation {

struct Design {
  int cells = 20;  // of a comparison: the confidence is shared among them, and they take turns
  int forks = 12;  // a side
  double threshold = 0.05;
  double confidence = 0.99;
};

// How many recorded forks lie between two forks of a cell while the others have their turn: as many as let
// two runs stand side by side in the recording.
std::size_t turn(const Series& series, const Design& design);

// What a run has of a cell that begins at `from`. At its end the recording begins anew.
struct Forks {
  std::vector<double> values;
  std::vector<double> blocks;  // of all of them, pooled
};
Forks run_of(const Series& series, const Design& design, std::size_t from, int cell);

// Two runs of all cells at two times of one recording, which do not overlap.
struct Places {
  std::size_t base = 0, current = 0;
};
Places two_places(const Series& series, const Design& design, Philox& lot);

struct TwoRuns {
  Forks base, current;
};
// Of one cell; the second run is `effect` slower.
TwoRuns two_runs(const Series& series, const Design& design, const Places& places, int cell, double effect);
// `between_runs` as a calibration has it.
CellVerdict by_compare(const TwoRuns& runs, const Design& design, const RunSpread& between_runs);
// compare.py on the same runs: p < 0.05.
bool flagged_by_u_test(const TwoRuns& runs);

// What `assay calibrate --runs 5` of so many forks tells `assay compare` of each cell, from runs at places
// drawn by lot.
std::vector<RunSpread> calibrated(const Series& series, const Design& design, Philox& lot);

// `assay ab` of one cell: in each round two forks that follow each other, by lot the first or the second is
// B's, which is `effect` slower. To its decision, or to what its last look left.
struct SequentialResult {
  CellVerdict verdict;
  int rounds = 0;
};
SequentialResult by_ab(const Series& series, const Design& design, double effect, Philox& lot);

}  // namespace assay::simulation

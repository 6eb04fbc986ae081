// Recorded forks replayed as the runs that a gate compares.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/gate/verdict.hpp"
#include "harness/io/philox.hpp"
#include "tests/simulation/noise.hpp"

namespace assay::simulation {

// A stretch of forks that follow each other, from a place drawn by lot; at the end the series begins anew.
struct Stretch {
  std::vector<double> values;
  std::vector<double> blocks;  // of all its forks, pooled
};
Stretch stretch(const Series& series, std::size_t from, int forks);

struct Design {
  int cells = 20;  // of a comparison: the confidence is shared among them
  int forks = 12;  // a side
  double threshold = 0.05;
  double confidence = 0.99;
};

// Two runs at two times of one recording, which do not overlap where it is long enough; the second is `effect`
// slower. `between_runs` as a calibration has it, 0: none.
struct TwoRuns {
  Stretch base, current;
};
TwoRuns two_runs(const Series& series, const Design& design, double effect, Philox& lot);
CellVerdict by_compare(const TwoRuns& runs, const Design& design, double between_runs);
// compare.py on the same runs: p < 0.05.
bool flagged_by_u_test(const TwoRuns& runs);

// What `assay calibrate` says of the series from `runs` runs of `forks` forks.
double calibrated(const Series& series, const Design& design, int runs, int forks, Philox& lot);

// `assay ab`: in each round two forks that follow each other, by lot the first or the second is B's, which is
// `effect` slower. To its decision or its last look.
struct SequentialResult {
  CellVerdict verdict;
  int rounds = 0;
};
SequentialResult by_ab(const Series& series, const Design& design, double effect, Philox& lot);

}  // namespace assay::simulation

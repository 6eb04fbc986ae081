// Runs with known noise, decided by the program's own model of runs.
#pragma once

#include <cstdint>
#include <string>

namespace assay::simulation {

// Standard deviations of ln(time).
struct MadeNoise {
  double forks = 0.02;  // between forks of a run
  double runs = 0.01;   // between runs of a cell
  double common = 0;    // between runs, common to all cells
  bool heavy = false;   // forks by Student's t with three degrees of freedom, of that deviation
  // Share of the runs in which the machine changes: in some consecutive rounds, but not in all, every second cell takes 1.3
  // to 2 times as long. Each of these cells has a factor of its own.
  double changing = 0;
  // Share of the cells whose runs differ by five times as much.
  double uneven = 0;
};

struct MadeDesign {
  int cells = 1, baselines = 5, forks = 6;
  MadeNoise noise{};
  double change = 0;  // of the time of the first cell: 0.1 is 10 % slower
  double all = 0;     // the same of all cells together
};

struct Outcomes {
  int comparisons = 0;
  int green = 0;      // exit code 0
  int slower = 0;     // exit code 3
  int undecided = 0;  // exit code 6
  int found = 0;      // comparisons in which the first cell is `slower`
};

// `comparisons` independent comparisons with the defaults of `assay compare`.
Outcomes outcomes_of(const MadeDesign& design, int comparisons, std::uint64_t seed);

}  // namespace assay::simulation

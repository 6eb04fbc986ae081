// How far apart forks of one run lie, and runs of one build: analyses of variance.
#pragma once

#include <vector>

namespace assay {

struct Scatter {
  double within = 0;   // standard deviation between forks of a run
  double between = 0;  // between any two runs, beyond what their forks explain; 0 where that is all
  int degrees = 0;     // of freedom of `between`
};

// `sessions`: of each its runs, of each run the natural logarithms of its forks. Two runs or more, and no empty list.
//
// Runs of one session: one-way analysis of variance, forks within runs. Of several sessions: forks within runs within
// sessions; `between` is the root of the variance of runs and that of sessions together, since a baseline and a new
// report are of two sessions. Its degrees of freedom by Satterthwaite (1946): near sessions - 1 where sessions differ,
// near runs - 1 where they do not.
Scatter scatter_of(const std::vector<std::vector<std::vector<double>>>& sessions);

}  // namespace assay

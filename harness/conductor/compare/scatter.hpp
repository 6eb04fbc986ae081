// The scatter of the forks of a run and of the runs of a build, by analysis of variance.
#pragma once

#include <vector>

namespace assay {

struct Scatter {
  double within = 0;   // standard deviation between forks of a run
  double between = 0;  // between any two runs, beyond that of their forks; 0 if the forks explain all of it
  int degrees = 0;     // degrees of freedom of `between`
};

// `sessions`: for each session its runs, for each run the natural logarithms of its forks. Precondition: at
// least two runs, and no empty list.
//
// One session: one-way analysis of variance, forks within runs. Several sessions: forks within runs within
// sessions; `between` is the root of the variance of runs plus that of sessions, because a baseline and a new
// report are from two sessions. Degrees of freedom by Satterthwaite (1946): near sessions - 1 if the sessions
// differ, near runs - 1 if they do not.
Scatter scatter_of(const std::vector<std::vector<std::vector<double>>>& sessions);

}  // namespace assay

// What the processor and the GPU did over the time of one fork, thin enough to be drawn.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Blocks of one kind without another between them. Seconds since the fork's first event.
struct Phase {
  std::string kind;  // "warm up", "timed", "epoch 3"
  double begin = 0, end = 0;
};

// Of neighboring samples that share a point the highest counts.
struct Timeline {
  std::vector<Phase> phases;
  std::vector<double> times;  // seconds since the fork's first event
  std::vector<double> cpu;    // cores
  std::vector<double> gpu;    // 0..1; empty where no GPU was sampled
};

// At most 500 points and phases. Nothing where fewer than two samples were taken.
std::optional<Timeline> timeline(const Fork& fork);

}  // namespace assay

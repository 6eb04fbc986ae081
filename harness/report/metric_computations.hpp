// How each metric is computed from the raw numbers of one fork; internal to metrics.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/metrics.hpp"

namespace assay {

// The work of a step, for a rate.
struct Amount {
  double value = 0;  // 0: unknown, see the reason
  std::string reason{};
};

// How to compute a fork's own value of a metric from its raw numbers.
struct Computation {
  const char* name;  // in the metric table
  std::function<ForkValue(const Fork&)> sample;
  // For a rate: the amount that is divided by the step time. The metric divides it by the metric step_time,
  // so that the two agree: the median of an even number of rates would be another number.
  std::optional<Amount> amount{};
  bool greatest = false;  // the metric is the greatest value of a fork, not the median
};

// Of a cell with these axes, in the order of the metric table.
std::vector<Computation> computations(const Axes& axes, const Work& work);

}  // namespace assay

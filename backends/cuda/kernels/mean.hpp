// The mean of some values in a fixed order, by one team.
#pragma once

#include "backends/cuda/kernels/launch.hpp"

namespace assay::cuda {

struct Mean {
  const float* values;
  float* mean;
  std::int64_t count;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t) const {
    float sum = 0;
    for (std::int64_t i = team.rank(); i < count; i += team.size()) sum += values[i];
    sum = team.sum(sum);
    if (team.rank() == 0) *mean = sum / static_cast<float>(count);
  }
};

}  // namespace assay::cuda

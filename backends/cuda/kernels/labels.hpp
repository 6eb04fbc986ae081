// The labels of a loss that count, and the mean over them, in a fixed order, by one team.
#pragma once

#include <limits>

#include "backends/cuda/kernels/launch.hpp"
#include "harness/graph/graph.hpp"

namespace assay::cuda {

inline constexpr std::int64_t no_label = std::numeric_limits<std::int64_t>::min();

// The attribute of a loss; without it, no_label.
inline std::int64_t ignored_label(const Node& node) { return node.attributes.get_or("ignored", no_label); }

// The number of labels that are not ignored; 1 if all are ignored, as a divisor.
struct CountLabels {
  const std::int32_t* labels;
  float* counted;
  std::int64_t count, ignored;
  ASSAY_TEAM float number(const Team& team) const {
    if (ignored == no_label) return static_cast<float>(count);
    float own = 0;  // exact for fewer than 2^24 labels
    for (std::int64_t i = team.rank(); i < count; i += team.size()) own += labels[i] == ignored ? 0.0F : 1.0F;
    return fmaxf(team.sum(own), 1.0F);
  }
  ASSAY_TEAM void operator()(const Team& team, std::int64_t) const {
    const float sum = number(team);
    if (team.rank() == 0) *counted = sum;
  }
};

// losses: 0 for an ignored label.
struct MeanOfLabels {
  const float* losses;
  const std::int32_t* labels;
  float* mean;
  std::int64_t count, ignored;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t) const {
    float sum = 0;
    for (std::int64_t i = team.rank(); i < count; i += team.size()) sum += losses[i];
    sum = team.sum(sum);
    const float counted = CountLabels{labels, nullptr, count, ignored}.number(team);
    if (team.rank() == 0) *mean = sum / counted;
  }
};

}  // namespace assay::cuda

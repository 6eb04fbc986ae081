// What bounds a memory plan: the bytes that are alive at once, value by value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/graph/memory_plan/memory_plan.hpp"

namespace assay {

struct LiveValue {
  ValueId value = none;
  std::int64_t bytes = 0;     // of its storage, in units of the alignment
  NodeId last_reader = none;  // why it is still there; none: it is kept to the end of the step
};

// The moment of a step at which the most bytes are alive under the in-place rules.
struct Peak {
  NodeId node = none;  // that runs then
  std::int64_t bytes = 0;
  std::vector<LiveValue> live;  // the largest first, equals in the order in which they were made
};

// `bytes` of the peak is MemoryPlan::lower_bound of the co-share plan without scratch.
Peak peak_of(const Graph& graph, const ByteSize& bytes);

}  // namespace assay

// Where the transient buffers and the scratch of a lowered graph lie in one block of memory.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/engine/lowered_graph.hpp"

namespace assay {

struct Arena {
  std::int64_t bytes = 0;
  std::vector<std::int64_t> buffers;  // offset by buffer; -1 for what is not transient. Multiples of 64
  std::vector<std::int64_t> scratch;  // offset by step; -1 where it asks for none
};

// In-place and co-share: a result may lie over an operand that its kernel is the last to read, where the
// kernel allows it, and over anything that is dead. Outputs stay to the end of the step.
Arena plan_arena(const LoweredGraph& lowered);

}  // namespace assay

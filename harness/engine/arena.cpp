#include "harness/engine/arena.hpp"

#include "harness/graph/memory_plan/placement.hpp"

namespace assay {

Arena plan_arena(const LoweredGraph& lowered) {
  std::vector<PlannedBuffer> buffers;
  for (const Buffer& buffer : lowered.buffers) {
    buffers.push_back({buffer.bytes, buffer.kind == Buffer::Kind::transient, buffer.output});
  }
  std::vector<PlannedStep> steps;
  for (const LoweredStep& step : lowered.steps) {
    steps.push_back({step.inputs, step.outputs, step.in_place, step.scratch_bytes});
  }
  Placement placement = place(buffers, steps, Sharing::co_share);
  return {placement.bytes, std::move(placement.offset), std::move(placement.scratch_offset)};
}

}  // namespace assay

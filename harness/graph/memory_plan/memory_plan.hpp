// Plans the positions of a graph's intermediates in one arena. Pure functions of the graph and of the values'
// sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/graph/memory_plan/placement.hpp"

namespace assay {

struct PlanOptions {
  Sharing sharing = Sharing::co_share;
  // Returns false for a pair that the op allows but this backend's kernel or formats do not. Empty: all are
  // allowed.
  std::function<bool(const Node&, InPlace)> allows = {};
  // Bytes in the arena that a node needs while it runs. Empty: none.
  std::function<std::int64_t(NodeId)> scratch = {};
};

struct MemoryPlan {
  // For each value, the value whose bytes it uses: itself, the value that it overwrites or is a view of, or
  // the target of its update. Feeds and persistent values have their own storage outside of the arena.
  std::vector<ValueId> storage;
  // Byte offset in the arena of each value; -1 if its storage is fed or persistent. Multiples of
  // arena_alignment.
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> scratch_offset;  // by node; -1 if it has none
  std::int64_t arena_bytes = 0;
  std::int64_t lower_bound = 0;  // maximum of bytes alive at once: no placement of these storages is smaller
  // Updates whose source could not use its target's storage: copy them at the end of the step.
  std::vector<Update> copies;
};

// In every plan the source of an update uses the target's storage if possible: they have the same size, the
// op allows it or does not read the target, and nothing reads the old bits later. Views need bytes only in
// the naive plan.
MemoryPlan plan_memory(const Graph& graph, const ByteSize& bytes, const PlanOptions& options = {});

}  // namespace assay

// Where the intermediates of a graph lie in one arena. Pure functions of the graph and of the values' sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/graph/memory_plan/placement.hpp"

namespace assay {

struct PlanOptions {
  Sharing sharing = Sharing::co_share;
  // Says no to a pair that the op allows but this backend's kernel or formats do not. Empty: yes to all.
  std::function<bool(const Node&, InPlace)> allows = {};
  // Bytes that a node needs while it runs, in the arena. Empty: none.
  std::function<std::int64_t(NodeId)> scratch = {};
};

struct MemoryPlan {
  // The value in whose bytes each value lies: itself, the one that it is written over or a view of, or the
  // target of its update. What is fed or persistent is its own storage and lies outside of the arena.
  std::vector<ValueId> storage;
  // Byte offset in the arena of each value; -1 for those whose storage is fed or persistent. Multiples of
  // arena_alignment.
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> scratch_offset;  // by node; -1 where it has none
  std::int64_t arena_bytes = 0;
  std::int64_t lower_bound = 0;  // the most bytes alive at once: no placement of these storages is smaller
  // Updates whose source could not be given its target's storage: copy them when the step ends.
  std::vector<Update> copies;
};

// In every plan the source of an update takes the target's storage where it may: same size, the op allows it
// or does not read the target, and nothing reads the old bits later. Views take no bytes but in the naive
// plan.
MemoryPlan plan_memory(const Graph& graph, const ByteSize& bytes, const PlanOptions& options = {});

}  // namespace assay

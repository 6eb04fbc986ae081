#include "harness/graph/memory_plan/peak.hpp"

#include <algorithm>
#include <functional>

namespace assay {
namespace {

struct Storage {
  std::int64_t bytes = 0;
  Lifetime life{0, -1};
};

}  // namespace

Peak peak_of(const Graph& graph, const ByteSize& bytes) {
  const MemoryPlan plan = plan_memory(graph, bytes);
  const std::vector<Lifetime> lives = liveness(graph);
  std::vector<Storage> storages(lives.size());  // by root
  for (std::size_t v = 0; v < lives.size(); ++v) {
    if (plan.offset[v] < 0) continue;
    Storage& storage = storages[index(plan.storage[v])];
    if (storage.life.last < 0) {
      storage.life = lives[v];
    } else {
      storage.life = {std::min(storage.life.first, lives[v].first),
                      std::max(storage.life.last, lives[v].last)};
    }
    storage.bytes = std::max(storage.bytes, aligned(bytes(static_cast<ValueId>(v))));
  }

  std::vector<std::int64_t> change(graph.nodes().size() + 2, 0);
  for (const Storage& storage : storages) {
    if (storage.life.last < 0) continue;
    change[index(storage.life.first)] += storage.bytes;
    change[index(storage.life.last + 1)] -= storage.bytes;
  }
  Peak peak;
  std::int64_t now = 0;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    now += change[n];
    if (now > peak.bytes) {
      peak.bytes = now;
      peak.node = static_cast<NodeId>(n);
    }
  }

  // Of the values in one storage the one that is alive then; where a result takes its operand's place, the
  // result.
  std::vector<ValueId> holder(lives.size(), none);
  for (std::size_t v = 0; v < lives.size(); ++v) {
    if (plan.offset[v] < 0 || lives[v].first > peak.node) continue;
    ValueId& held = holder[index(plan.storage[v])];
    if (held == none || lives[v].last >= peak.node) held = static_cast<ValueId>(v);
  }
  for (std::size_t s = 0; s < storages.size(); ++s) {
    const Storage& storage = storages[s];
    if (storage.life.last < peak.node || storage.life.first > peak.node || holder[s] == none) continue;
    const bool kept = storage.life.last >= static_cast<std::int64_t>(graph.nodes().size());
    peak.live.push_back({holder[s], storage.bytes, kept ? none : static_cast<NodeId>(storage.life.last)});
  }
  std::ranges::stable_sort(peak.live, std::greater<>(), &LiveValue::bytes);
  return peak;
}

}  // namespace assay

#include "harness/plan/peak.hpp"

#include <algorithm>
#include <functional>

namespace assay {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

struct Block {
  std::int64_t bytes = 0;
  Lifetime life{0, -1};
};

}  // namespace

Peak peak_of(const Graph& graph, const ByteSize& bytes) {
  const MemoryPlan plan = plan_memory(graph, bytes);
  const std::vector<Lifetime> lives = liveness(graph);
  std::vector<Block> storages(lives.size());  // by root
  for (std::size_t v = 0; v < lives.size(); ++v) {
    if (plan.offset[v] < 0) continue;
    Block& block = storages[at(plan.storage[v])];
    if (block.life.last < 0) {
      block.life = lives[v];
    } else {
      block.life = {std::min(block.life.first, lives[v].first), std::max(block.life.last, lives[v].last)};
    }
    block.bytes = std::max(block.bytes, aligned(bytes(static_cast<ValueId>(v))));
  }

  std::vector<std::int64_t> change(graph.nodes().size() + 2, 0);
  for (const Block& block : storages) {
    if (block.life.last < 0) continue;
    change[at(block.life.first)] += block.bytes;
    change[at(block.life.last + 1)] -= block.bytes;
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
    ValueId& held = holder[at(plan.storage[v])];
    if (held == none || lives[v].last >= peak.node) held = static_cast<ValueId>(v);
  }
  for (std::size_t s = 0; s < storages.size(); ++s) {
    const Block& block = storages[s];
    if (block.life.last < peak.node || block.life.first > peak.node || holder[s] == none) continue;
    const bool kept = block.life.last >= static_cast<std::int64_t>(graph.nodes().size());
    peak.live.push_back({holder[s], block.bytes, kept ? none : static_cast<NodeId>(block.life.last)});
  }
  std::ranges::stable_sort(peak.live, std::greater<>(), &LiveValue::bytes);
  return peak;
}

}  // namespace assay

#include "harness/graph/memory_plan/placement.hpp"

#include <algorithm>
#include <numeric>

#include "harness/graph/passes/walk.hpp"

namespace assay {

ByteSize plain_bytes(const Graph& graph) {
  return [&graph](ValueId id) {
    const Value& value = graph.value(id);
    if (!value.opaque) return value.type.bytes();
    const ValueId first = graph.node(value.producer).outputs.front();
    return graph.value(first).type.elements() * std::int64_t{4};
  };
}

std::vector<Lifetime> liveness(const Graph& graph) {
  const auto end = static_cast<std::int64_t>(graph.nodes().size());
  const std::vector<std::vector<NodeId>> readers = consumers(graph);
  std::vector<Lifetime> lives;
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const NodeId producer = graph.values()[v].producer;
    if (producer == none) {
      lives.push_back({0, end});
    } else {
      lives.push_back({producer, readers[v].empty() ? producer : readers[v].back()});
    }
  }
  for (const Graph::Output& output : graph.outputs())
    lives[static_cast<std::size_t>(output.value)].last = end;
  for (const Update& update : graph.updates()) lives[static_cast<std::size_t>(update.source)].last = end;
  return lives;
}

std::int64_t aligned(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

namespace {

// Bytes that must not overlap others while they live: a storage or a scratch.
struct Block {
  std::int64_t bytes = 0;
  Lifetime life;
  std::int64_t offset = 0;
};

// Records the buffers that overwrite other buffers.
class Storages {
 public:
  Storages(std::span<const PlannedBuffer> buffers, std::span<const PlannedStep> steps, bool in_place,
           std::int64_t alignment)
      : buffers_(buffers),
        alignment_(alignment),
        lives_(lifetimes(buffers, steps)),
        root_(buffers.size()),
        overwritten_(buffers.size()) {
    std::iota(root_.begin(), root_.end(), 0);
    blocks_.resize(buffers.size());
    for (std::size_t b = 0; b < buffers.size(); ++b)
      blocks_[b] = {aligned(buffers[b].bytes, alignment), lives_[b], 0};
    if (!in_place) return;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      for (const InPlace& pair : steps[s].in_place) try_over(steps[s], static_cast<std::int64_t>(s), pair);
    }
  }

  int root(std::size_t buffer) const { return root_[buffer]; }
  Block& block(int root) { return blocks_[index(root)]; }
  bool is_root(std::size_t buffer) const {
    return buffers_[buffer].planned && root_[buffer] == static_cast<int>(buffer) && lives_[buffer].last >= 0;
  }

 private:
  void try_over(const PlannedStep& step, std::int64_t s, const InPlace& pair) {
    if (index(pair.output) >= step.outputs.size() || index(pair.input) >= step.inputs.size()) return;
    const int output = step.outputs[index(pair.output)];
    const int input = step.inputs[index(pair.input)];
    if (output < 0 || input < 0 || output == input) return;
    if (!buffers_[index(output)].planned || !buffers_[index(input)].planned) return;
    const bool fresh = lives_[index(output)].first == s && root_[index(output)] == output;
    const bool dies = lives_[index(input)].last == s && !overwritten_[index(input)];
    Block& storage = blocks_[index(root_[index(input)])];
    if (!fresh || !dies || aligned(buffers_[index(output)].bytes, alignment_) > storage.bytes) return;
    // An operand that occurs twice must be allowed twice.
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const auto allows = [&](const InPlace& other) {
        return other.output == pair.output && index(other.input) == i;
      };
      if (step.inputs[i] == input && std::ranges::none_of(step.in_place, allows)) return;
    }
    // A result that occurs twice would be written twice.
    if (std::ranges::count(step.outputs, output) != 1) return;
    root_[index(output)] = root_[index(input)];
    overwritten_[index(input)] = true;
    storage.life.last = std::max(storage.life.last, lives_[index(output)].last);
  }

  std::span<const PlannedBuffer> buffers_;
  std::int64_t alignment_;
  std::vector<Lifetime> lives_;
  std::vector<int> root_;
  std::vector<bool> overwritten_;
  std::vector<Block> blocks_;
};

std::int64_t side_by_side(std::span<Block*> blocks) {
  std::int64_t end = 0;
  for (Block* block : blocks) {
    block->offset = end;
    end += block->bytes;
  }
  return end;
}

// Uses the smallest gap between the blocks that live at the same time, or else the end. Places the largest
// block first: it has the least choice.
std::int64_t best_fit(std::span<Block*> blocks) {
  std::ranges::stable_sort(blocks, [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  std::int64_t arena = 0;
  std::vector<const Block*> placed;  // by offset
  for (Block* block : blocks) {
    std::int64_t end = 0;  // end of the blocks before the gap
    std::int64_t best = -1;
    std::int64_t best_size = 0;
    for (const Block* other : placed) {
      if (!other->life.overlaps(block->life)) continue;
      const std::int64_t gap = other->offset - end;
      if (gap >= block->bytes && (best < 0 || gap < best_size)) {
        best = end;
        best_size = gap;
      }
      end = std::max(end, other->offset + other->bytes);
    }
    block->offset = best >= 0 ? best : end;
    arena = std::max(arena, block->offset + block->bytes);
    placed.insert(std::ranges::upper_bound(placed, block->offset, {}, &Block::offset), block);
  }
  return arena;
}

std::int64_t peak(std::span<Block* const> blocks) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;
  for (const Block* block : blocks) {
    changes.emplace_back(block->life.first, block->bytes);
    changes.emplace_back(block->life.last + 1, -block->bytes);
  }
  // At one step, blocks that end (negative) come before blocks that begin.
  std::ranges::sort(changes);
  std::int64_t live = 0;
  std::int64_t max_live = 0;
  for (const auto& [step, bytes] : changes) {
    live += bytes;
    max_live = std::max(max_live, live);
  }
  return max_live;
}

}  // namespace

std::string_view to_string(Sharing sharing) {
  switch (sharing) {
    case Sharing::naive:
      return "naive";
    case Sharing::in_place:
      return "in_place";
    case Sharing::co_share_only:
      return "co_share_only";
    case Sharing::co_share:
      return "co_share";
  }
  return {};
}

std::vector<Lifetime> lifetimes(std::span<const PlannedBuffer> buffers, std::span<const PlannedStep> steps) {
  std::vector<Lifetime> lives(buffers.size(), {0, -1});
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const auto* named : {&steps[s].inputs, &steps[s].outputs}) {
      for (const int b : *named) {
        if (b < 0) continue;
        Lifetime& life = lives[index(b)];
        if (life.last < 0) life.first = static_cast<std::int64_t>(s);
        life.last = static_cast<std::int64_t>(s);
      }
    }
  }
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].kept && lives[b].last >= 0) lives[b].last = static_cast<std::int64_t>(steps.size());
  }
  return lives;
}

Placement place(std::span<const PlannedBuffer> buffers, std::span<const PlannedStep> steps, Sharing sharing,
                std::int64_t alignment, std::int64_t reuse_distance) {
  const bool in_place = sharing == Sharing::in_place || sharing == Sharing::co_share;
  const bool co_share = sharing == Sharing::co_share_only || sharing == Sharing::co_share;
  Storages storages(buffers, steps, in_place, alignment);
  std::vector<Block> scratch(steps.size());
  std::vector<Block*> blocks;
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (storages.is_root(b)) blocks.push_back(&storages.block(static_cast<int>(b)));
  }
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].scratch <= 0) continue;
    const auto now = static_cast<std::int64_t>(s);
    scratch[s] = {aligned(steps[s].scratch, alignment), {now, now}, 0};
    blocks.push_back(&scratch[s]);
  }

  for (Block* block : blocks) block->life.last += reuse_distance;

  Placement placement;
  placement.lower_bound = peak(blocks);
  placement.bytes = co_share ? best_fit(blocks) : side_by_side(blocks);
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const int root = storages.root(b);
    placement.storage.push_back(root);
    placement.offset.push_back(storages.is_root(index(root)) ? storages.block(root).offset : -1);
  }
  for (std::size_t s = 0; s < steps.size(); ++s) {
    placement.scratch_offset.push_back(steps[s].scratch > 0 ? scratch[s].offset : -1);
  }
  return placement;
}

}  // namespace assay

// The lifetime of each value of a graph, in steps of its node order, and the placement of buffers with known
// lifetimes in one arena. The placement does not use the graph: an executor passes its own buffers and steps.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "harness/graph/graph.hpp"
#include "harness/graph/op.hpp"

namespace assay {

// Bytes of a value. A backend returns the sizes of its own formats and of opaque values.
using ByteSize = std::function<std::int64_t(ValueId)>;
// The size of the value's type, row-major; an opaque value (an argmax) counts 4 bytes for each element of its
// node's first result.
ByteSize plain_bytes(const Graph& graph);

// The nodes from `first` to `last`, both included, during which a value must keep its bits.
struct Lifetime {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
  bool operator==(const Lifetime&) const = default;
};

// One entry for each value. An intermediate lives from its producer to its last reader. An output or the
// source of an update lives to the end, node graph.nodes().size(). Feeds and persistent values live
// throughout.
std::vector<Lifetime> liveness(const Graph& graph);

enum class Sharing : std::uint8_t {
  naive,          // every buffer has its own place
  in_place,       // a result overwrites an operand that dies there, if the step allows it
  co_share_only,  // buffers that never live together may share bytes, but no result overwrites its operand
  co_share,       // both
};
std::string_view to_string(Sharing sharing);

// Of hosts. A device may need more.
inline constexpr std::int64_t arena_alignment = 64;

struct PlannedBuffer {
  std::int64_t bytes = 0;
  bool planned = true;  // false: it is outside of the arena (fed, persistent)
  bool kept = false;    // must stay valid after the last step
};

// Buffers are named by their index; -1 if an operand or result is absent.
struct PlannedStep {
  std::vector<int> inputs = {};
  std::vector<int> outputs = {};
  std::vector<InPlace> in_place = {};  // pairs that the kernel allows, in order of preference
  std::int64_t scratch = 0;            // bytes in the arena while it runs
};

struct Placement {
  // By buffer, in bytes, multiples of the alignment; -1 if it is not planned.
  std::vector<std::int64_t> offset;
  // By buffer: the first buffer in the chain that it overwrites; itself if it overwrites none.
  std::vector<int> storage;
  // By step; -1 if it needs no scratch.
  std::vector<std::int64_t> scratch_offset;
  std::int64_t bytes = 0;
  // The maximum of bytes alive at once, in units of the alignment: no placement of these storages is smaller.
  std::int64_t lower_bound = 0;
};

// `bytes` up to the next multiple of the alignment.
std::int64_t aligned(std::int64_t bytes, std::int64_t alignment = arena_alignment);

// Deterministic. Never needs more bytes than naive. A buffer lives from the first step that names it to the
// last. alignment: a power of two. reuse_distance: for how many more steps the bytes of a buffer or of a scratch stay
// unused; a result that overwrites an operand does so at once.
Placement place(std::span<const PlannedBuffer> buffers, std::span<const PlannedStep> steps, Sharing sharing,
                std::int64_t alignment = arena_alignment, std::int64_t reuse_distance = 0);

// The lifetime of each buffer; {0, -1} if no step names it.
std::vector<Lifetime> lifetimes(std::span<const PlannedBuffer> buffers, std::span<const PlannedStep> steps);

}  // namespace assay

// When each value of a graph is alive, in steps of its node order, and where buffers with known lifetimes lie in
// one arena. Placement knows no graph: an executor hands its own buffers and steps to it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "harness/graph/graph.hpp"
#include "harness/graph/op.hpp"

namespace assay {

// Bytes of a value. A backend answers for its own formats and for what is opaque.
using ByteSize = std::function<std::int64_t(ValueId)>;
// The value's type, row-major; an opaque one (an argmax) counts 4 bytes for each element of its node's first
// result.
ByteSize plain_bytes(const Graph& graph);

// The nodes from `first` to `last`, both included, during which a value must keep its bits.
struct Lifetime {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
  bool operator==(const Lifetime&) const = default;
};

// One per value. An intermediate lives from its producer to its last reader; an output or the source of an
// update to the end, node graph.nodes().size(); what is fed or persistent lives throughout.
std::vector<Lifetime> liveness(const Graph& graph);

enum class Sharing : std::uint8_t {
  naive,     // every buffer has a place of its own
  in_place,  // a result is written over an operand that dies there, where the step allows it
  co_share,  // in_place, and buffers that never live together may have the same bytes
};
std::string_view to_string(Sharing sharing);

inline constexpr std::int64_t arena_alignment = 64;

struct PlannedBuffer {
  std::int64_t bytes = 0;
  bool planned = true;  // false: it lies elsewhere (fed, persistent)
  bool kept = false;    // must still be there after the last step
};

// Buffers are named by their index; -1 where an operand or result is absent.
struct PlannedStep {
  std::vector<int> inputs = {};
  std::vector<int> outputs = {};
  std::vector<InPlace> in_place = {};  // what the kernel allows, in order of preference
  std::int64_t scratch = 0;            // bytes in the arena while it runs
};

struct Placement {
  // By buffer, in bytes, multiples of arena_alignment; -1 for what is not planned.
  std::vector<std::int64_t> offset;
  // By buffer: the first of the buffers that it was written over, itself where there is none.
  std::vector<int> storage;
  // By step; -1 where it asks for no scratch.
  std::vector<std::int64_t> scratch_offset;
  std::int64_t bytes = 0;
  // The most bytes alive at once, in units of the alignment: no placement of these storages is smaller.
  std::int64_t lower_bound = 0;
};

// `bytes` up to the next multiple of arena_alignment.
std::int64_t aligned(std::int64_t bytes);

// Deterministic. Never takes more than naive does. A buffer lives from the first step that names it to the
// last.
Placement place(std::span<const PlannedBuffer> buffers, std::span<const PlannedStep> steps, Sharing sharing);

// The lifetime of each buffer; {0, -1} for one that no step names.
std::vector<Lifetime> lifetimes(std::span<const PlannedBuffer> buffers, std::span<const PlannedStep> steps);

}  // namespace assay

// Places buffers with known lifetimes in one arena. Knows no graph: an executor hands its own buffers and
// steps to it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "harness/graph/memory_plan/liveness.hpp"
#include "harness/graph/op.hpp"

namespace assay {

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

// The random numbers of op dropout_mask for the kernel backends on a CPU.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay {

// The parameters of the numbers that one node draws in one step.
struct MaskDraw {
  std::uint64_t seed = 0;     // 0: the mask is supplied, nothing is drawn
  std::uint64_t stream = 0;   // of the node: fnv1a of its name
  std::uint32_t step = 0;     // the step count of the schedule
  std::uint32_t dropped = 0;  // the rate, in units of 2^-16

  // rate in [0, 1).
  static std::uint32_t dropped_of(double rate);
};
// The seed from its two halves in memory, low half first.
std::uint64_t seed_from(const std::int32_t* halves);

// Writes elements [begin, end) of the mask: 1 kept, 0 dropped. Element i depends only on the draw and i, so
// that threads may divide the range in any way; `begin` is a multiple of 8. Uses sixteen bits of
// Philox4x32-10 for each element.
void draw_mask(const MaskDraw& draw, std::int64_t begin, std::int64_t end, std::uint8_t* mask);

}  // namespace assay

// The numbers behind op dropout_mask for the kernel backends on a CPU.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay {

// What one node draws in one step.
struct MaskDraw {
  std::uint64_t seed = 0;     // 0: nothing is drawn, the mask was supplied
  std::uint64_t stream = 0;   // of the node: fnv1a of its name
  std::uint32_t step = 0;     // the step count of the schedule
  std::uint32_t dropped = 0;  // of 2^16: the rate

  // rate in [0, 1).
  static std::uint32_t dropped_of(double rate);
};
// The two halves in memory, low one first, as a seed.
std::uint64_t seed_from(const std::int32_t* halves);

// Writes elements [begin, end) of the mask: 1 kept, 0 dropped. Element i depends on the draw and i alone, so
// that threads may share the range as they like; `begin` is a multiple of 8. Sixteen bits of Philox4x32-10 an
// element.
void draw_mask(const MaskDraw& draw, std::int64_t begin, std::int64_t end, std::uint8_t* mask);

}  // namespace assay

#include "harness/engine/mask_draw.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "harness/core/io/philox.hpp"

namespace assay {
namespace {

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

std::uint32_t MaskDraw::dropped_of(double rate) {
  return static_cast<std::uint32_t>(std::lround(rate * 65536.0));
}

std::uint64_t seed_from(const std::int32_t* halves) {
  return static_cast<std::uint32_t>(halves[0]) | (std::uint64_t{static_cast<std::uint32_t>(halves[1])} << 32);
}

void draw_mask(const MaskDraw& draw, std::int64_t begin, std::int64_t end, std::uint8_t* mask) {
  assert(begin % 8 == 0);
  for (std::int64_t at = begin; at < end; at += 8) {
    const auto block = static_cast<std::uint32_t>(at / 8);  // repeats after 2^35 elements
    const auto words = philox4x32({block, draw.step, low(draw.stream), high(draw.stream)},
                                  {low(draw.seed), high(draw.seed)});
    std::uint8_t kept[8];
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t word = words[static_cast<std::size_t>(i)];
      kept[2 * i] = (word & 0xffff) >= draw.dropped;
      kept[2 * i + 1] = (word >> 16) >= draw.dropped;
    }
    std::copy_n(kept, std::min<std::int64_t>(8, end - at), mask + at);
  }
}

}  // namespace assay

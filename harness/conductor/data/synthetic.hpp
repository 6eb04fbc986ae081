// Images made here, in the shape of any set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/tensor.hpp"

namespace assay {

// Of everything synthetic.
inline constexpr std::uint64_t synthetic_seed = 2026;

struct SyntheticSpec {
  bool learnable = true;  // otherwise noise, and labels that have nothing to do with it
  Shape sample_shape;     // (C, H, W); fewer dimensions are (1, H, W) and (1, 1, W)
  std::int64_t classes = 0;
  std::int64_t samples = 0;
};

struct SyntheticData {
  std::vector<std::uint8_t> inputs;  // (samples, sample_shape...)
  std::vector<std::int32_t>
      labels;  // (samples); every class as often as any other, give or take one, in shuffled order
};

// The same for the same spec and stream, on every machine. Streams ("train", "test") share the rule.
//
// What can be learnt: each class has a picture of its own, a grid of 4 by 4 random values a channel drawn out
// smoothly over the image. A sample is the picture of its class, moved by up to a sixteenth of its size in
// each direction, half covered by noise. So a network that sees averages over an area finds the rule whether
// it is convolutional or not, and also under crops and mirroring; one that does not train stays at chance.
SyntheticData make_synthetic(const SyntheticSpec& spec, const std::string& stream);

}  // namespace assay

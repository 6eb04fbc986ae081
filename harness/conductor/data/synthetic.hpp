// Synthetic images in the shape of any set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/tensor.hpp"

namespace assay {

// The seed of all synthetic sets.
inline constexpr std::uint64_t synthetic_seed = 2026;

struct SyntheticSpec {
  bool learnable = true;  // otherwise noise with random labels
  Shape sample_shape;     // (C, H, W); fewer dimensions are (1, H, W) and (1, 1, W)
  std::int64_t classes = 0;
  std::int64_t samples = 0;
};

struct SyntheticData {
  std::vector<std::uint8_t> inputs;  // (samples, sample_shape...)
  std::vector<std::int32_t>
      labels;  // (samples); all classes equally often (to within one), in shuffled order
};

// Equal for equal spec and stream, on every machine. Streams ("train", "test") share the rule.
//
// The rule: each class has its own picture, a grid of 4 by 4 random values per channel, interpolated smoothly
// over the image. A sample is the picture of its class, moved by up to a sixteenth of its size in each
// direction, and half covered by noise. So any network that averages over areas finds the rule, convolutional
// or not, and also with crops and mirroring; a network that does not train stays at chance.
SyntheticData make_synthetic(const SyntheticSpec& spec, const std::string& stream);

}  // namespace assay

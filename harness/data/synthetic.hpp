// Data made here, in the shape of any set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/graph/tensor.hpp"

namespace assay {

struct SyntheticSpec {
  bool learnable = true;  // a pattern for each class, half hidden by noise; otherwise noise, and labels that
                          // have nothing to do with it
  Shape sample_shape;
  std::int64_t classes = 0;
  std::int64_t samples = 0;
};

struct SyntheticData {
  std::vector<std::uint8_t> inputs;  // (samples, sample_shape...)
  std::vector<std::uint8_t>
      labels;  // (samples); every class as often as any other, give or take one, in shuffled order
};

// The same for the same spec and stream, on every machine. At most 256 classes. Streams ("train", "test")
// share the classes' patterns.
SyntheticData make_synthetic(const SyntheticSpec& spec, const std::string& stream);

}  // namespace assay

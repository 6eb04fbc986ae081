// Activations over runs of floats: part of the table of loops.hpp.
#pragma once

#include <cstdint>

namespace assay::onednn {

struct Curve {
  void (*value)(const float* x, float* y, std::int64_t n);
  // dx = dy * the slope at x. dx may be x or dy.
  void (*gradient)(const float* x, const float* dy, float* dx, std::int64_t n);
};

struct Curves {
  Curve gelu, gelu_tanh, silu, selu;
};

}  // namespace assay::onednn

// How parameters and state begin: the same bits for every backend.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/core/tensor.hpp"
#include "harness/graph/graph.hpp"

namespace assay {

// fan_in and fan_out of a weight: (out, in) for linear; (O, I, H, W) for convolution: fan_in = I H W, fan_out
// = O H W. A vector (n) has both n.
struct Fans {
  std::int64_t in = 0, out = 0;
};
Fans fans(const Shape& shape);

// f32, drawn from Philox(seed, name) in row-major order, computed in double and rounded:
//   zeros, ones
//   glorot_uniform   U(-a, a), a = sqrt(6 / (fan_in + fan_out))        (Glorot & Bengio 2010)
//   he_normal        N(0, 2 / fan_in), not truncated                   (He et al. 2015)
//   uniform_fan_in   U(-a, a), a = 1 / sqrt(fan_in)
// Throws DataError for another initializer, naming the value.
HostTensor initial_value(std::string_view name, const Shape& shape, std::string_view initializer,
                         std::uint64_t seed);

// Parameters and state of a graph, in its order.
std::vector<HostTensor> initial_values(const Graph& graph, std::uint64_t seed);

}  // namespace assay

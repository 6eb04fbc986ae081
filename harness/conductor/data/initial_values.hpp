// Values that are the same for every backend: parameters and the operands of single ops.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/domain.hpp"
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
//   normal:X         N(0, X^2), not truncated
//   uniform:X        U(-X, X)
//   truncated_normal:X  N(0, X^2) without values beyond 2 X
// Throws DataError for another initializer, naming the value.
HostTensor initial_value(std::string_view name, const Shape& shape, std::string_view initializer,
                         std::uint64_t seed);

// For each value of a graph, its initializer under a scheme; norms and state keep the graph's own.
//
//   scheme         kernel of a convolution or linear layer    bias                              embedding
//   keras          glorot_uniform                             zeros                             uniform:0.05
//   gluon          uniform:0.07                               zeros                             uniform:0.07
//   torch          uniform_fan_in                             U of the kernel's uniform_fan_in  normal:1
//   glorot_normal  truncated normal with variance             the same; both fans of a vector   as the kernel
//                  2 / (fan_in + fan_out)                     of n elements are n
//
// Throws DataError for a parameter of another layer.
std::vector<std::string> scheme_initializers(const Graph& graph, InitialScheme scheme);

// Parameters and state of a graph, in its order; with a scheme, from its initializers.
std::vector<HostTensor> initial_values(const Graph& graph, std::uint64_t seed,
                                       std::optional<InitialScheme> scheme = {});

// The drawn inputs of a single op, or of a network that packs them (packs_inputs()).
//
// `samples` samples; each contains every input of the graph, one after the other. batch: the samples that the graph
// computes at once. Each input is drawn from Philox(seed, "<stream>/<name>") and filled according to its initializer;
// none is mostly zeros:
//
//   signal    uniform with mean 0 and standard deviation 1
//   weight    uniform with mean 0 and standard deviation sqrt(2 / fan_in) (He et al. 2015), which keeps the
//             scale of a sum over fan_in products; fan_in is the product of the dimensions after the first
//   positive  uniform in [0.5, 1.5), but never within 0.02 of 1
//   wide      uniform in [-8, 8), beyond the bounds of every clamped function, but never within 0.001 of a whole number,
//             where some have kinks
//   below:N   whole numbers from 0 to N - 1
//   padding   masks of texts of a quarter to all of the steps, the last dimension: 0, then -inf
//   fraction  pairs of the tag 1, of a real number, and a signal
//
// Throws DataError for any other initializer.
std::vector<float> draw_operands(const Graph& graph, std::int64_t samples, std::uint64_t seed,
                                 std::string_view stream, std::int64_t batch = 1);

}  // namespace assay

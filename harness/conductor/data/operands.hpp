// The operands of a single op, drawn: the same for every backend.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

// `samples` samples, each of which holds every input of the graph, one after the other. Each input is drawn
// from Philox(seed, "<stream>/<name>") and filled as its initializer says; none is mostly zeros:
//
//   signal    uniform with mean 0 and standard deviation 1
//   weight    uniform with mean 0 and standard deviation sqrt(2 / fan_in) (He et al. 2015), which keeps the
//             scale of a sum over fan_in products; fan_in is the product of the dimensions after the first
//   positive  uniform in [0.5, 1.5), but never within 0.02 of 1
//   below:N   whole numbers from 0 to N - 1
//   number    pairs of a tag and a number: tag 0 and a whole number from -8 to 8, or tag 1 and a signal
//
// Throws DataError for any other initializer.
std::vector<float> draw_operands(const Graph& graph, std::int64_t samples, std::uint64_t seed,
                                 std::string_view stream);

}  // namespace assay

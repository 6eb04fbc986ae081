// The operands of a single op, drawn: the same for every backend.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

// `samples` times every input of the graph, one input behind the other in a sample, by Philox(seed,
// "<stream>/<name>"), each filled as its initializer says; none is mostly zeros:
//   signal    uniform with mean 0 and deviation 1
//   weight    uniform, of the deviation that keeps a sum over its fan-in at that of its operand (He et al.
//   2015) positive  0.5 to 1.5, never within 0.02 of 1 below:N   whole numbers from 0 to N - 1 number pairs
//   of a tag and a number: tag 0 and a whole number from -8 to 8, or tag 1 and a signal
// Throws DataError for another word.
std::vector<float> draw_operands(const Graph& graph, std::int64_t samples, std::uint64_t seed,
                                 std::string_view stream);

}  // namespace assay

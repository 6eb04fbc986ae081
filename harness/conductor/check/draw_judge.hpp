// Judges the masks that a timed program draws by itself.
#pragma once

#include <vector>

#include "harness/conductor/check/tensor_file.hpp"
#include "harness/graph/program.hpp"
#include "harness/report/report.hpp"

namespace assay {

// "verify/draws/<mask>": of n elements in two steps, the number that each kept must be n (1 - rate) and the
// number in which they agree n ((1 - rate)^2 + rate^2), each to six standard deviations of independent draws
// and 2^-14 n. max_error and max_bound are those of the worst of the three, as shares. A program in which
// nothing can be told of a mask is wrong.
std::vector<TensorVerdict> judge_draws(const TensorFile& worker, const Program& program);

}  // namespace assay

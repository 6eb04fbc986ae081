// Judges what the oracle cannot know: the masks that a program draws by itself, and whether a long run and one with a
// pause after each step come to the same.
#pragma once

#include <vector>

#include "harness/conductor/check/tensor_file.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/program.hpp"
#include "harness/report/report.hpp"

namespace assay {

// "draws/<mask>": of n elements in two steps, the number that each kept must be n (1 - rate) and the
// number in which they agree n ((1 - rate)^2 + rate^2), each to six standard deviations of independent draws
// and 2^-14 n. Two rows of one draw must agree as two draws do. max_error and max_bound are those of the worst
// of the four, as shares. A program in which nothing can be told of a mask is wrong.
std::vector<TensorVerdict> judge_draws(const TensorFile& worker, const Program& program, Task task);

// "continuation/<tensor>" of an exam with a continuation: how far two runs of the same steps from the state
// that the timed steps left are apart, one that goes on without a pause, and one that starts from a copy of that state
// and waits for each step. Allowed is a share of what the steps moved, 1e-2 in fp32 and 0.1 where storage is narrower, and
// eight roundings of the tensor: runs that add up in another order drift apart, and a lost, doubled or late update is
// farther off.
std::vector<TensorVerdict> judge_continuation(const TensorFile& worker, const Program& program,
                                              const Precision& precision);

}  // namespace assay

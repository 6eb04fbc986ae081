// Judges what the oracle cannot know: the masks that a program draws by itself, and whether a long run and a
// run with a pause after each step have the same result.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/conductor/check/audit.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/exam_files.hpp"
#include "harness/report/report.hpp"

namespace assay {

// "draws/<mask>" U8 (2, ...): the masks of two steps. Of n elements, the number kept in each step must be n (1 - rate), and
// the number in which the steps agree must be n ((1 - rate)^2 + rate^2), each within six standard deviations of
// independent draws plus 2^-14 n. So must elements of the first step that are next to each other in a dimension, or half
// of the dimension apart, and those of any two of several `ranks`, which have equal parts of the rows. max_error and
// max_bound are those of the worst, as shares. A program that does not report a mask is wrong.
std::vector<TensorVerdict> judge_draws(const TensorFile& worker, const Program& program, Task task,
                                       std::size_t ranks = 1);

// "continuation/<tensor>" of an exam with a continuation: compares two runs of the same steps from the state
// that the timed steps left; one runs without a pause, and one starts from a copy of that state and waits for
// each step. Allowed is a share of the change by these steps, 1e-2 in fp32 and 0.1 for narrower storage, plus
// eight roundings of the tensor: runs with another order of summation drift apart, but a lost, doubled or
// late update differs more. `noisy` names the parameters whose gradient is zero except for rounding. If a
// program does not sum in a fixed order, all that moves them and their moments is different in each run, so
// three times the change is allowed. If the two runs differ, the worker has run the steps from states that are
// a rounding apart: six times the farthest of those is allowed too, up to the change by the steps, and for `noisy`
// ones without a limit. `deterministic`: nothing is allowed. `excerpt`: of the worker's tensors.
std::vector<TensorVerdict> judge_continuation(const TensorFile& worker, const Program& program,
                                              const Precision& precision, const std::set<std::string>& noisy,
                                              bool deterministic = false,
                                              const std::optional<ExamExcerpt>& excerpt = std::nullopt);

// "continuation/step/<tensor>": the state after the first step of the continuation, and that of another backend after the
// same step. Allowed is a share of what that step moved, 0.2 in fp32 and 0.3 for narrower storage, plus eight roundings
// of the tensor. Where the loss is small, the gradient is the difference of a probability and 1, so 64 roundings of 1
// (4 of narrower storage) by the loss are added to the share. Empty if the share is more than 0.6. What only rounding
// moves is left out.
//
// Rounding may decide the side of a kink, which parts two right backends by more, if few samples share a gradient. So each
// tensor may also do what one of up to max_nudged_replays steps does that are `nudged`: the changes are compared, and the
// allowed share is the same. The verdict is the nearest.
//
// With narrower storage many kinks may be within a rounding at once, and no nudged step has all of them on the worker's
// side. There a tensor may also differ from the step that is not nudged by four times the largest distance of a nudged
// step from it. At most three quarters of the change are allowed, but without that limit if the largest distance is more
// than half of the change: then rounding decides it. All this only if the tensors differ by at most half of their changes
// on average, so that a lost or doubled update is refused.
std::vector<TensorVerdict> judge_next_state(const TensorFile& worker, const Program& program,
                                            const Precision& precision, const std::set<std::string>& noisy,
                                            const SteppedState& next,
                                            const std::optional<ExamExcerpt>& excerpt,
                                            const NudgedStep& nudged = {});

// The maximum size of the tensors of a continuation, in bytes.
std::uint64_t max_continuation_bytes(const Program& program);

// The first parameter, moment or running statistic that is not finite after the run; empty if there is none.
std::string first_not_finite(const TensorFile& worker, const Program& program);
// Whether only what began from the state that the timed steps left exceeds its bound, and not the exam itself.
bool differs_only_after_run(const Equivalence& verified);

}  // namespace assay

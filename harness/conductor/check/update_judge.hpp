// Judges what only the worker's own answers can be held against: one training step apart from its gradient, and the
// masks that a timed program draws by itself.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/conductor/check/tensor_file.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/program.hpp"
#include "harness/report/report.hpp"

namespace assay {

// One element of a parameter with its moments, in the order of OptimizerSpec::moments(); unused moments are
// zero.
struct OptimizerElement {
  double parameter = 0;
  std::array<double, 2> moments{};
};

// optimizer.weight_decay is applied as it stands: OptimizerSpec::decay_of() says what it is for a parameter.
// step: 1 for the first. lazy_adam: of a row that is touched. Throws GraphError when the kind of optimizer is
// unknown.
OptimizerElement optimizer_step(const OptimizerSpec& optimizer, const OptimizerElement& before,
                                double gradient, double learning_rate, std::int64_t step);

// By row of the parameter: whether the tokens of check/inputs.npy name it. Empty where every row is updated:
// another optimizer than lazy_adam, or a dense gradient. Throws CellError when the file is not what
// the graph reads.
std::vector<bool> touched_rows(const std::filesystem::path& cell_folder, const Program& program,
                               ValueId parameter);

// "check/updated/<parameter>" and its moments, recomputed in fp64 from the check's parameters and moments,
// the worker's own gradient and row 0 of check/schedule.npy. The gradient counts as known to its own bound
// (the step and the gradient may come from different kernels), the constants of the optimizer to their
// rounding in the master type. Each element has its own bound; max_error and max_bound are those of the worst
// element. Throws CellError when our own files are at fault.
std::vector<TensorVerdict> judge_updates(const std::filesystem::path& cell_folder, const TensorFile& oracle,
                                         const TensorFile& worker, const Program& program,
                                         const Precision& precision, double repeats);

// "verify/draws/<mask>": of n elements in two steps, the number that each kept must be n (1 - rate) and the
// number in which they agree n ((1 - rate)^2 + rate^2), each to six standard deviations of independent draws
// and 2^-14 n. max_error and max_bound are those of the worst of the three, as shares. A program in which
// nothing can be told of a mask is wrong.
std::vector<TensorVerdict> judge_draws(const TensorFile& worker, const Program& program);

}  // namespace assay

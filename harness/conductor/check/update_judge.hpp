// Judges one training step apart from its gradient.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/conductor/check/tensor_file.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/program.hpp"
#include "harness/report/report.hpp"

namespace assay {

// "check/updated/<parameter>" and its moments, recomputed in fp64 from the check's parameters and moments,
// the worker's own gradient and row 0 of check/schedule.npy. The gradient counts as known to its own bound
// (the step and the gradient may come from different kernels), the constants of the optimizer to their
// rounding in the master type. Each element has its own bound; max_error and max_bound are those of the worst
// element. Throws std::runtime_error when our own files are at fault.
std::vector<TensorVerdict> judge_updates(const std::filesystem::path& cell_folder, const TensorFile& oracle,
                                         const TensorFile& worker, const Program& program,
                                         const Precision& precision, double repeats);

}  // namespace assay

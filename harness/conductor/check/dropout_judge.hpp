// Judges a program that draws its masks by one of the same network that takes them: both did the same steps with
// the same masks. The exam compares the second with the oracle.
#pragma once

#include <optional>
#include <vector>

#include "harness/conductor/check/tensor_file.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/program.hpp"
#include "harness/report/report.hpp"

namespace assay {

// "timed/loss", and of a network that trains "timed/<tensor>" of each parameter, moment and running statistic; of a
// single op "timed/result/<output>" and "timed/gradient/<input>". docs/explanation/equivalence.md, "Dropout", has the
// bounds. Empty where the worker's file has none of them: then the program that draws was not compared.
// start: the exam's state. repeats: as in bound_of(). excerpt: of the worker's tensors of a network. Throws CellError when
// the oracle's file is at fault.
std::vector<TensorVerdict> judge_timed_dropout(const TensorFile& worker, const TensorFile& oracle,
                                               const TensorFile& start, const Program& program, Task task,
                                               const Precision& precision, double repeats,
                                               const std::optional<ExamExcerpt>& excerpt);

// Whether the verdict has such tensors.
bool has_timed_dropout(const Equivalence& equivalence);

}  // namespace assay

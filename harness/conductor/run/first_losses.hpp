// Whether the backends of a round did the same training: compares their losses after the same few timed
// steps.
#pragma once

#include <span>

#include "harness/report/report.hpp"

namespace assay {

// In a round all compared cells start from the same parameters and train on the same batches. If their first
// blocks have equally many steps, they have nearly the same loss after it. Adds a warning to each fork of the
// round whose loss is more than 5 % from the median of three or more. After more than 500 steps nothing is
// compared, because training amplifies rounding errors. Call it after each fork. rows: the cells of a group that
// train without dropout and without a framework's own loader.
void compare_first_losses(std::span<CellReport* const> rows, int round);

}  // namespace assay

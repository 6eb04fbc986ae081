// Whether the backends of a round trained on the same thing: their losses after the same few steps of what is timed.
#pragma once

#include <span>

#include "harness/report/report.hpp"

namespace assay {

// In a round all cells that are compared start from the same parameters and go through the same batches, so after the
// first block, where that has equally many steps, they have nearly the same loss. Adds a warning to each fork of the
// round whose loss is more than 5 % from the median of three or more. Call it after each fork; rows: the cells of a
// group that train without dropout and are not fed by a loader of the framework's own.
void compare_first_losses(std::span<CellReport* const> rows, int round);

}  // namespace assay

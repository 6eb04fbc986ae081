// How training went: the loss after each epoch, for those who look for the shape of a curve.
#pragma once

#include <vector>

#include "harness/conductor/print/table.hpp"
#include "harness/report/comparison.hpp"
#include "harness/report/report.hpp"

namespace assay {

// One row a cell of the group that evaluated five epochs or more: the training loss, median over forks that
// are ok, at ten epochs or fewer, the first and the last among them. Without rows where no cell did.
Table loss_curves(const Report& report, const ComparisonGroup& group);

}  // namespace assay

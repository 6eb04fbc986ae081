// How training went: the loss after each epoch, for those who look for the shape of a curve.
#pragma once

#include "harness/conductor/print/table.hpp"
#include "harness/report/analysis.hpp"

namespace assay {

// One row a cell of the group that evaluated five epochs or more: the training loss, median over the forks
// that count, at ten epochs or fewer, the first and the last among them. Without rows where no cell did.
Table loss_curves(const Analysis& all, const AnalyzedGroup& group);

}  // namespace assay

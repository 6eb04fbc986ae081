// Single ops: time against size, one table for each op, task, precision and cache.
#pragma once

#include <vector>

#include "harness/conductor/print/table.hpp"
#include "harness/report/analysis.hpp"

namespace assay {

// In the order of the cells; empty where no cell is a single op.
std::vector<Table> op_tables(const Analysis& all);

}  // namespace assay

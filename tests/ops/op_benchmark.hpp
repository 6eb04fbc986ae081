// The operator suite under Google Benchmark.
#pragma once

#include <string>

#include "harness/conductor/config/cell.hpp"

namespace benchmark::internal {
class Benchmark;
}

namespace assay {

// A benchmark that is called as the cell's id is; an iteration is one step. The operands are made when it
// runs first and live until another one runs. An op that the backend does not have is an error of its row.
benchmark::internal::Benchmark* register_op(const Cell& cell);

// The whole of op_suite().
void register_op_suite(const std::string& backend);

}  // namespace assay

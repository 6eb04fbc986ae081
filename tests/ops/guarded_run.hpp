// Runs the graph of a row on any kernel library, in memory that shows what a kernel must not do.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/engine/kernel_library.hpp"
#include "tests/ops/op_case.hpp"

namespace assay::ops {

struct GuardedRun {
  std::map<std::string, std::vector<double>> results;  // by output
  std::vector<std::string> faults;  // "node wrote after result 0", "node changed its operand 1"
};

// Every buffer is between guards, results start as NaN, scratch as rubbish. Each kernel runs twice and must
// say the same twice. plain: as eager mode lowers it. Throws Unsupported.
GuardedRun run_guarded(const OpCase& row, const Precision& precision, KernelLibrary& library, bool plain);

}  // namespace assay::ops

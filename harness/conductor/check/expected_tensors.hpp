// Which tensors a phase of the check must find in the worker's file: docs/protocol.md, "What the checks
// write".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/graph/program.hpp"

namespace assay {

struct ExpectedTensor {
  std::string name;  // without the phase: "gradient/conv1.weight"
  Shape shape;
  bool rows = false;        // has one row a sample: the oracle has the distinct samples alone
  bool update = false;      // judged by recomputing the update, not against the oracle
  bool draws = false;       // counts of what the program drew, judged by their distribution
  bool square = false;      // a mean of squares: judged by its root
  std::string answer = {};  // its name in the oracle's file
};

// phase: "check" or "verify"; steps: rows of check/schedule.npy.
std::vector<ExpectedTensor> expected_tensors(const Program& program, Task task, std::string_view phase,
                                             std::int64_t steps);

}  // namespace assay

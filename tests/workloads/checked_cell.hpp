// The whole equivalence check of one cell in one process: what the conductor does with two workers, without
// them.
#pragma once

#include <string>
#include <vector>

#include "harness/report/report.hpp"
#include "harness/worker/backend.hpp"

namespace assay {

struct CheckedCell {
  Task task = Task::train;
  std::string mode = "graph";
  PrecisionKind precision = PrecisionKind::fp32;
  int threads = 1;
  std::int64_t distinct = 8;
};

struct Judged {
  Equivalence check;           // before timing
  Equivalence verify;          // on the executable that ran
  std::vector<double> losses;  // the oracle's, of the steps after timing

  bool passed() const { return check.passed && verify.passed; }
  double worst() const { return check.worst > verify.worst ? check.worst : verify.worst; }
  // The reasons, or the worst tensors.
  std::string text() const;
};

// Judges `backend` against the reference in fp64 on `program`. The executable that is verified has run a few
// steps from other parameters before, as a timed one has.
Judged judge_backend(Backend& backend, const Program& program, const CheckedCell& cell);

}  // namespace assay

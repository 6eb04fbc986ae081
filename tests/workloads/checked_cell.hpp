// The whole exam of one cell in one process: what the conductor does with two workers, without
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
  std::int64_t distinct = 4;
  std::uint64_t seed = 1;
  bool deterministic = false;  // also: without a search for engines
};

struct Judged {
  Equivalence exam;
  double first_loss = 0, last_loss = 0;  // the oracle's; 0 where nothing is trained

  bool passed() const { return exam.passed; }
  double worst() const { return exam.worst; }
  const TensorVerdict* find(std::string_view name) const;
  // The reason, and the worst tensors.
  std::string text() const;
};

// Judges `backend` against the reference in fp64 on `program`. The executable has run a few steps from other parameters
// before, as a timed one has.
Judged judge_backend(Backend& backend, const Program& program, const CheckedCell& cell);

}  // namespace assay

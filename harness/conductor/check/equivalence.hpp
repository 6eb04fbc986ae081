// Compares the tensors of a worker with the oracle's answers.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/conductor/check/audit.hpp"
#include "harness/graph/program.hpp"
#include "harness/report/report.hpp"

namespace assay {

// An exam with its answers. Both are out of reach of the worker.
struct Exam {
  std::filesystem::path folder;   // write_exam()
  std::filesystem::path answers;  // oracle.safetensors
  Task task = Task::train;
  PrecisionKind precision = PrecisionKind::fp32;
};

// Compares each tensor of the worker's file with the oracle's answers. A missing, misshapen or non-finite
// tensor, or a malformed file, fails with a reason. audit: what was requested about the run. Throws CellError
// for errors in the files of the oracle or the exam. Where the loss after the last steps may be off by its own size, the
// network amplifies roundings until nothing is left of a result; tensors of these steps that may be off by their own size
// are then counted, not judged.
Equivalence judge(const Exam& exam, const Program& program, const std::filesystem::path& worker_file,
                  const RunAudit& audit = {});

// What one of several ranks answered on its part of the batches (rank_exam.hpp).
struct RankAnswers {
  std::filesystem::path file;
  RunAudit audit{};
};
// The same for ranks that train one model together. The oracle answered on whole batches, so the ranks' losses are averaged
// and their logits are put together in the order of the rows. The state of each rank is judged, except for running
// statistics: only those of the first rank are used. Of a tensor that several ranks have, the verdict is the worst one.
Equivalence judge(const Exam& exam, const Program& program, const std::vector<RankAnswers>& ranks);

// The tensors of both; for a tensor in both, the worse of the two verdicts.
Equivalence merged(const Equivalence& a, const Equivalence& b);

// How well the exam detects errors: the largest of the bounds of the gradients, as relative L2, with the
// parameter's name. Skips a gradient that consists only of rounding errors (the bias in front of a batch
// norm).
struct Looseness {
  double bound = 0;
  std::string parameter{};
};
Looseness looseness(const Exam& exam, const Program& program);

}  // namespace assay

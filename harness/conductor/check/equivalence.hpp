// Judges what a worker wrote against the oracle's answers.
#pragma once

#include <filesystem>

#include "harness/conductor/check/audit.hpp"
#include "harness/graph/program.hpp"
#include "harness/report/report.hpp"

namespace assay {

// An exam that was set, with the answers to it. Both lie where the worker has no business.
struct Exam {
  std::filesystem::path folder;   // write_exam()
  std::filesystem::path answers;  // oracle.safetensors
  Task task = Task::train;
  PrecisionKind precision = PrecisionKind::fp32;
};

// Compares each tensor of the worker's file with the oracle's answers. A missing, misshapen or non-finite tensor, and a
// file that is none, fail with words. audit: what it was asked of its run. Throws CellError when the oracle's file or the
// exam's are at fault.
Equivalence judge(const Exam& exam, const Program& program, const std::filesystem::path& worker_file,
                  const RunAudit& audit = {});

// How well the exam can tell: the largest of the bounds of the gradients, as relative L2, with the parameter's name.
// A gradient that is nothing but rounding (the bias in front of a batch norm) is left out.
struct Looseness {
  double bound = 0;
  std::string parameter{};
};
Looseness looseness(const Exam& exam, const Program& program);

}  // namespace assay

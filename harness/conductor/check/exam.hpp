// What a worker is asked after it was timed: a state, batches and steps that are made of it, on which mistakes show.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/core/domain.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {

// How many distinct samples a batch is made of: the largest divisor of `batch` not above `asked`. Where that
// is less than half of what was asked (a batch of 13), the smallest divisor above: a prime batch is all
// distinct and the oracle pays for it.
std::int64_t distinct_samples(std::int64_t batch, std::int64_t asked);

// What an exam depends on, beside its program.
struct ExamPlan {
  std::uint64_t seed = 1;
  std::int64_t distinct = 4;  // samples in each batch, as asked
  std::int64_t resident =
      0;  // slots that the cell keeps batches in; 0: each step's batch is staged in slot 0
  Task task = Task::train;
  PrecisionKind precision = PrecisionKind::fp32;
};

// Writes state.safetensors, inputs.npy, labels.npy, schedule.npy, batches.json and, where the program has what they are
// for, masks.safetensors, extreme.safetensors and continuation.json: docs/reference/protocol.md, "The exam". A function of (program, plan). No
// parameter is zero or one, no moment zero.
void write_exam(const std::filesystem::path& folder, const Program& program, const ExamPlan& plan);

// The oracle moves biases by about a rounding, so that no ReLU reads what is within rounding of zero, and gives them as
// state/<name>: they become those of the exam in `folder`. Throws CellError when the exam does not have one.
void take_moved_biases(const std::filesystem::path& folder, const std::filesystem::path& answers);

}  // namespace assay

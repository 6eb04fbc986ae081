// The exam of a worker after it was timed: a state, batches and steps that make mistakes visible.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/core/domain.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {

// The number of distinct samples in a batch: the largest divisor of `batch` that is at most `asked`. If that
// is less than half of `asked` (a batch of 13), the smallest larger divisor: all samples of a prime batch are
// distinct, which makes the oracle slower.
std::int64_t distinct_samples(std::int64_t batch, std::int64_t asked);

// The parameters of an exam, in addition to its program.
struct ExamPlan {
  std::uint64_t seed = 1;
  std::int64_t distinct = 4;  // requested samples in each batch
  std::int64_t resident =
      0;  // slots in which the cell keeps batches; 0: the batch of each step is staged in slot 0
  Task task = Task::train;
  PrecisionKind precision = PrecisionKind::fp32;
  int ranks =
      1;  // workers that share each batch; divides it. Each has `distinct` samples that no other one has
  // Of several exams of a cell, the number of this one: together they ask for all slots, and for few and many steps.
  std::uint64_t turn = 0;
  // The results of a run are asked, too (run_results.hpp), so fewer batches of the exam's own are enough.
  bool of_run = false;
};

// The distinct samples in each batch of an exam, of all ranks.
std::int64_t distinct_of(const Program& program, const ExamPlan& plan);

// The slots in which an exam stages its batches, shuffled by the seed: at most eight of `resident`, others in the next
// turn, so that all have their turn. Each is next to the one that is half of the slots away, which shows memory that
// two slots share. Three times slot 0 if no batch is resident.
std::vector<std::int64_t> exam_slots(std::int64_t resident, std::uint64_t turn, std::uint64_t seed);

// Writes state.safetensors, inputs.npy, labels.npy, schedule.npy, batches.json and, if the program needs
// them, masks.safetensors, extreme.safetensors and continuation.json: docs/reference/protocol.md, "The exam".
// Depends only on (program, plan). No parameter is zero or one, and no moment is zero.
void write_exam(const std::filesystem::path& folder, const Program& program, const ExamPlan& plan);

// The oracle moves biases by about a rounding error, so that no ReLU reads a value within rounding of zero,
// and writes them as state/<name>: replaces those of the exam in `folder`. Throws CellError if the exam does
// not have one.
void take_moved_biases(const std::filesystem::path& folder, const std::filesystem::path& answers);

}  // namespace assay

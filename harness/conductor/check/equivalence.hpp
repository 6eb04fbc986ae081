// Judges what a worker wrote against the oracle's answers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "harness/core/json/fields.hpp"
#include "harness/graph/program.hpp"
#include "harness/report/report.hpp"

namespace assay {

// How the check's batch was made: `distinct` samples, row r of the batch is sample row_of[r]. Each sample has
// equally many rows, so that mean loss, gradients and biased batch statistics of the batch are those of the
// distinct samples alone.
struct CheckBatch {
  std::int64_t batch = 0;
  std::int64_t distinct = 0;
  std::vector<std::int64_t> row_of;  // (batch)

  double repeats() const { return static_cast<double>(batch) / static_cast<double>(distinct); }
};
constexpr auto describe(Of<CheckBatch>) {
  return fields("check_batch", "The check's batch.",
                field("batch", &CheckBatch::batch, "Its rows.").at_least(1),
                field("distinct", &CheckBatch::distinct, "Distinct samples among them.").at_least(1),
                field("row_of", &CheckBatch::row_of, "The sample of each row."));
}

// How many distinct samples a batch is made of: the largest divisor of `batch` not above `asked`. Where that
// is less than half of what was asked (a batch of 13), the smallest divisor above: a prime batch is all
// distinct and the oracle pays for it.
std::int64_t distinct_samples(std::int64_t batch, std::int64_t asked);

// Writes check/{parameters.safetensors, inputs.npy, labels.npy, schedule.npy, batch.json} of a cell folder.
// Deterministic in (program, seed, distinct): give every round the same seed and the oracle answers once. No
// parameter is zero or one; the labels of the distinct samples are spread over the classes. Of a single op
// the batch is one sample with the operands of `task`.
CheckBatch write_check(const std::filesystem::path& cell_folder, const Program& program, std::uint64_t seed,
                       std::int64_t distinct = 8, Task task = Task::train);

// Throws CellError naming the file when check/batch.json is missing or malformed.
CheckBatch read_check_batch(const std::filesystem::path& cell_folder);

// Reads results/check.safetensors (phase "check") or results/verify.safetensors (phase "verify") of the cell
// folder and compares each tensor with the oracle's answers. A missing, misshapen or non-finite tensor, and a
// file that is none, fail with words. Updates are judged apart from gradients: recomputed in fp64 from the
// worker's own old state and gradient. The cell's precision and task are those of its request.json. Throws
// CellError when the oracle's file or our own files are at fault.
Equivalence judge(const std::filesystem::path& cell_folder, const std::filesystem::path& oracle_file,
                  std::string_view phase, const Program& program);

}  // namespace assay

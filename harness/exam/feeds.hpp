// The files that the conductor writes to check/ of a cell folder: docs/reference/protocol.md, "The exam".
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "harness/core/io/philox.hpp"
#include "harness/core/tensor.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {

// A batch of the exam in host memory.
struct FedBatch {
  HostTensor inputs{};  // F32 (B, ...), I32 for tokens
  HostTensor labels{};  // I32 (B) or (B, T)
};

struct ExamFeeds {
  std::vector<HostTensor> state{};    // F32: parameters, running statistics, moments
  HostTensor inputs{};                // the samples of all batches, one after the other
  HostTensor labels{};                // I32, of each sample
  HostTensor schedule{};              // F64 (1 + k, 2): learning rate, step count
  std::vector<HostTensor> masks{};    // U8, a row for each distinct sample of a batch; none without dropout
  std::vector<HostTensor> extreme{};  // replaces tensors of the state in the step with an extreme logit
  ExamBatches batches{};
  std::optional<ExamContinuation> continuation{};  // absent: not requested
  std::optional<ExamRun> run{};                    // absent: not requested
  std::optional<ExamExcerpt> excerpt{};            // absent: the continuation hands over whole tensors

  // The rows of a batch. If a sample occurs several times, its further rows differ by one rounding in some
  // elements, so that no two rows are equal.
  FedBatch batch(std::int64_t number) const;
  // The masks with a row for each row of a batch.
  std::vector<HostTensor> batch_masks() const;
  std::int64_t steps() const { return schedule.type.shape.front() - 1; }
  double learning_rate(std::int64_t row) const;  // row 0: of the step that is examined on its own
  std::int64_t step_count(std::int64_t row) const;
};

// Throws CellError naming a file that is missing or malformed.
ExamFeeds read_exam(const std::filesystem::path& cell_folder);

// Moves about one of `one_in` values, drawn at random, by a rounding towards zero.
void nudge(std::span<float> values, std::uint64_t one_in, Philox& random);

}  // namespace assay

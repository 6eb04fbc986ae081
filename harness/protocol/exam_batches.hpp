// check/batches.json: how the batches of the exam are made of its samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/core/json/fields.hpp"

namespace assay {

// Batch i has the samples i * distinct to (i + 1) * distinct - 1; its row r is sample i * distinct + row_of[r]. Each
// sample has equally many rows, so that mean loss, gradients and biased batch statistics of a batch are those of its
// distinct samples alone.
struct ExamBatches {
  std::int64_t batch = 0;
  std::int64_t distinct = 0;
  std::vector<std::int64_t> row_of{};  // (batch)
  std::vector<std::int64_t> slots{};   // of each batch

  std::int64_t count() const { return static_cast<std::int64_t>(slots.size()); }
  double repeats() const { return static_cast<double>(batch) / static_cast<double>(distinct); }
};
constexpr auto describe(Of<ExamBatches>) {
  return fields("exam_batches", "The exam's batches.",
                field("batch", &ExamBatches::batch, "Rows of each.").at_least(1),
                field("distinct", &ExamBatches::distinct, "Distinct samples in each.").at_least(1),
                field("row_of", &ExamBatches::row_of, "The sample of each row, counted within the batch."),
                field("slots", &ExamBatches::slots, "The slot that each is staged in."));
}

// Throws JsonError naming the file when it is missing, malformed, or does not fit together.
ExamBatches read_exam_batches(const std::filesystem::path& file);

}  // namespace assay

// The JSON files of check/ in a cell folder: docs/reference/protocol.md, "The exam".
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/core/json/fields.hpp"

namespace assay {

// batches.json. Batch i has the samples i * distinct to (i + 1) * distinct - 1; its row r is sample i * distinct + row_of[r]. Each
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

// continuation.json: how many steps go on from the state that the timed steps left.
struct ExamContinuation {
  double seconds = 0.25;
  std::int64_t fewest = 2;
  std::int64_t most = 200;

  // As many as take `seconds`, within the limits. step_seconds: what one took.
  std::int64_t steps(double step_seconds) const;
};
constexpr auto describe(Of<ExamContinuation>) {
  return fields(
      "exam_continuation", "How long the run is continued.",
      field("seconds", &ExamContinuation::seconds, "That the steps take, within the limits.").at_least(0),
      field("fewest", &ExamContinuation::fewest, "Minimum of steps.").between(1, 1'000'000),
      field("most", &ExamContinuation::most, "Maximum of steps.").between(1, 1'000'000));
}

// Throws JsonError naming the file when it is missing or malformed.
ExamContinuation read_exam_continuation(const std::filesystem::path& file);

// loader.json: how the framework's own loader is examined.
struct ExamLoader {
  double seconds = 2;
  std::int64_t steps = 100;
  std::int64_t batches = 20;
};
constexpr auto describe(Of<ExamLoader>) {
  return fields(
      "exam_loader", "How the framework's own loader is examined.",
      field("seconds", &ExamLoader::seconds, "That are trained at most, after ten steps.").at_least(0),
      field("steps", &ExamLoader::steps, "That are trained at most.").between(1, 1'000'000),
      field("batches", &ExamLoader::batches, "Whose losses are told.").between(2, 1'000'000));
}

// replay.json, laid down when the run is over: after which steps, counted from the first of the run, the loss is asked.
struct ExamReplay {
  std::vector<std::int64_t> steps{};  // ascending, from 1
};
constexpr auto describe(Of<ExamReplay>) {
  return fields("exam_replay", "What of the run is computed once more.",
                field("steps", &ExamReplay::steps, "Numbers of steps after which the loss is asked."));
}

// Throws JsonError naming the file when it is missing, malformed, or its steps do not ascend from 1 at least.
ExamReplay read_exam_replay(const std::filesystem::path& file);

}  // namespace assay

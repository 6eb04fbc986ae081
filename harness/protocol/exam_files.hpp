// The JSON files of check/ in a cell folder: docs/reference/protocol.md, "The exam".
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "harness/core/json/fields.hpp"

namespace assay {

// batches.json. Batch i has the samples i * distinct to (i + 1) * distinct - 1; its row r is sample i *
// distinct + row_of[r]. Each sample has the same number of rows, so that mean loss, gradients and biased
// batch statistics of a batch are those of its distinct samples only.
struct ExamBatches {
  std::int64_t batch = 0;
  std::int64_t distinct = 0;
  std::vector<std::int64_t> row_of{};  // (batch)
  std::vector<std::int64_t> slots{};   // one for each batch

  std::int64_t count() const { return static_cast<std::int64_t>(slots.size()); }
  double repeats() const { return static_cast<double>(batch) / static_cast<double>(distinct); }
};
inline Description describe(Of<ExamBatches>) {
  return fields("exam_batches", "The exam's batches.",
                field("batch", &ExamBatches::batch, "Rows of each batch.").at_least(1),
                field("distinct", &ExamBatches::distinct, "Distinct samples in each batch.").at_least(1),
                field("row_of", &ExamBatches::row_of, "The sample of each row, counted within the batch."),
                field("slots", &ExamBatches::slots, "The slot of each batch."));
}

// Throws JsonError naming the file if it is missing, malformed or inconsistent.
ExamBatches read_exam_batches(const std::filesystem::path& file);

// continuation.json: how many steps continue from the state after the timed steps.
struct ExamContinuation {
  double seconds = 0.25;
  std::int64_t fewest = 2;
  std::int64_t most = 200;

  // The number of steps that take `seconds`, within the limits. step_seconds: measured time of one step.
  std::int64_t steps(double step_seconds) const;
};
inline Description describe(Of<ExamContinuation>) {
  return fields(
      "exam_continuation", "How long the run is continued.",
      field("seconds", &ExamContinuation::seconds, "Time for the steps, within the limits.").at_least(0),
      field("fewest", &ExamContinuation::fewest, "Minimum of steps.").between(1, 1'000'000),
      field("most", &ExamContinuation::most, "Maximum of steps.").between(1, 1'000'000));
}

// Throws JsonError naming the file if it is missing or malformed.
ExamContinuation read_exam_continuation(const std::filesystem::path& file);

// loader.json: how to examine the framework's own loader.
struct ExamLoader {
  double seconds = 2;
  std::int64_t steps = 100;
  std::int64_t batches = 20;
};
inline Description describe(Of<ExamLoader>) {
  return fields(
      "exam_loader", "How to examine the framework's own loader.",
      field("seconds", &ExamLoader::seconds, "Maximum of seconds to train, after ten steps.").at_least(0),
      field("steps", &ExamLoader::steps, "Maximum of steps to train.").between(1, 1'000'000),
      field("batches", &ExamLoader::batches, "Number of batches whose losses are reported.")
          .between(2, 1'000'000));
}

// A loss that the run reported, and by what share of the replay's losses it may be apart from them.
struct RunLoss {
  double loss = 0, share = 0;

  // `first`: the replay's loss after its first step; `here`: after as many steps as the run's.
  double allowed(double first, double here) const { return share * std::max(first, here); }
};
inline Description describe(Of<RunLoss>) {
  return fields(
      "run_loss", "A loss that the run reported.", field("loss", &RunLoss::loss, "The loss."),
      field("share", &RunLoss::share, "By what share of the loss the replay's may be apart.").at_least(0));
}

// replay.json, written after the run: the steps after which the loss is requested, counted from the first
// step of the run.
struct ExamReplay {
  std::vector<std::int64_t> steps{};  // ascending, from 1
  // After each of `steps` but the first; empty: unknown, so the replay must be repeated.
  std::vector<RunLoss> reported{};

  // Whether a replay with these losses after `steps` agrees with the run, so that nobody needs to know how far
  // a second one is apart from it.
  bool agrees(std::span<const double> losses) const;
};
inline Description describe(Of<ExamReplay>) {
  return fields("exam_replay", "The part of the run to compute again.",
                field("steps", &ExamReplay::steps, "Numbers of steps after which the loss is requested."),
                field("reported", &ExamReplay::reported, "The run's losses after these steps but the first.")
                    .left_out_by_default());
}

// Throws JsonError naming the file if it is missing or malformed, if its steps do not ascend from 1 or
// more, or if the number of losses is another.
ExamReplay read_exam_replay(const std::filesystem::path& file);

}  // namespace assay

// The JSON files of check/ in a cell folder: docs/reference/protocol.md, "The exam".
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/json/fields.hpp"
#include "harness/core/words.hpp"

namespace assay {

enum class ExamKind { training, inference, decoding, op };
template <>
inline constexpr auto words<ExamKind> =
    std::array{Word{ExamKind::training, "training"}, Word{ExamKind::inference, "inference"},
               Word{ExamKind::decoding, "decoding"}, Word{ExamKind::op, "op"}};

// exam.json.
struct ExamSubject {
  ExamKind kind = ExamKind::training;
  std::int64_t generated = 0;  // task decode: the tokens after a prompt
  std::vector<std::string> parameters{}, running{};
};
inline Description describe(Of<ExamSubject>) {
  return fields("exam_subject", "What the exam is about.",
                field("kind", &ExamSubject::kind, "What is asked."),
                field("generated", &ExamSubject::generated, "Task `decode`: the tokens after a prompt.")
                    .between(0, 1 << 24)
                    .left_out_by_default(),
                field("parameters", &ExamSubject::parameters, "Names of the parameters."),
                field("running", &ExamSubject::running, "Names of the running statistics."));
}

// Throws JsonError naming the file if it is missing or malformed.
ExamSubject read_exam_subject(const std::filesystem::path& file);

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

// The number of runs that the oracle makes at a time, by the elements of the program's state. Each has an executable
// and several copies of the state.
inline std::int64_t oracle_lanes(bool is_op, double state_elements, std::int64_t threads) {
  constexpr std::int64_t max_lanes = 4;
  constexpr double max_elements = 4'000'000;
  return is_op || state_elements > max_elements ? 1 : std::clamp<std::int64_t>(threads, 1, max_lanes);
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

// excerpt.json: which elements of each tensor of a large state the continuation hands over, chosen after the run.
struct ExamExcerpt {
  std::int64_t elements = 1;  // one after the other; all of a smaller tensor
  double at = 0;  // where they begin: 0 at the first element, 1 at the last place from which all fit

  std::int64_t count(std::int64_t size) const { return std::min(size, elements); }
  std::int64_t first(std::int64_t size) const;
};
inline Description describe(Of<ExamExcerpt>) {
  return fields(
      "exam_excerpt", "The elements of each tensor that the continuation hands over.",
      field("elements", &ExamExcerpt::elements, "Their number, at most.").at_least(1),
      field("at", &ExamExcerpt::at, "Where they begin, as a share of the possible places.").between(0, 1));
}

// Throws JsonError naming the file if it is missing or malformed.
ExamExcerpt read_exam_excerpt(const std::filesystem::path& file);

// If the results of a step have more elements, those that were read are not handed over.
inline constexpr std::int64_t max_read_elements = std::int64_t{1} << 22;

// run.json, written after the run of a task without training: which of its batches are computed again, with its own
// weights, before the exam sets anything.
struct ExamRun {
  std::vector<std::int64_t> slots{};
};
inline Description describe(Of<ExamRun>) {
  return fields("exam_run", "The batches of the run to compute again.",
                field("slots", &ExamRun::slots, "Their slots; none if each step was given its batch."));
}

// Throws JsonError naming the file if it is missing or malformed.
ExamRun read_exam_run(const std::filesystem::path& file);

}  // namespace assay

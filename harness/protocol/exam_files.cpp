#include "harness/protocol/exam_files.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/json/decode.hpp"

namespace assay {

ExamSubject read_exam_subject(const std::filesystem::path& file) {
  return decoded<ExamSubject>(read_strict_json(file), file.string(), {.not_finite = false});
}

ExamBatches read_exam_batches(const std::filesystem::path& file) {
  const auto batches = decoded<ExamBatches>(read_strict_json(file), file.string(), {.not_finite = false});
  const bool fits = static_cast<std::int64_t>(batches.row_of.size()) == batches.batch &&
                    batches.distinct <= batches.batch && batches.count() > 0 &&
                    std::ranges::all_of(batches.row_of,
                                        [&](std::int64_t row) { return row >= 0 && row < batches.distinct; });
  if (!fits)
    throw JsonError(fmt::format("{}: rows, samples and batches contradict each other", file.string()));
  return batches;
}

std::int64_t ExamContinuation::steps(double step_seconds) const {
  if (seconds >= static_cast<double>(most) * step_seconds) return most;
  return std::max(fewest, static_cast<std::int64_t>(seconds / step_seconds));
}

ExamContinuation read_exam_continuation(const std::filesystem::path& file) {
  const auto continuation =
      decoded<ExamContinuation>(read_strict_json(file), file.string(), {.not_finite = false});
  if (continuation.fewest > continuation.most)
    throw JsonError(fmt::format("{}: the minimum of steps is {}, the maximum is {}", file.string(),
                                continuation.fewest, continuation.most));
  return continuation;
}

std::int64_t ExamExcerpt::first(std::int64_t size) const {
  const std::int64_t last = size - count(size);
  return std::min(last, static_cast<std::int64_t>(at * static_cast<double>(last + 1)));
}

ExamExcerpt read_exam_excerpt(const std::filesystem::path& file) {
  return decoded<ExamExcerpt>(read_strict_json(file), file.string(), {.not_finite = false});
}

ExamRun read_exam_run(const std::filesystem::path& file) {
  return decoded<ExamRun>(read_strict_json(file), file.string(), {.not_finite = false});
}

}  // namespace assay

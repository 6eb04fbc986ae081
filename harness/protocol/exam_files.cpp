#include "harness/protocol/exam_files.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/json/decode.hpp"

namespace assay {

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

bool ExamReplay::agrees(std::span<const double> losses) const {
  if (reported.empty() || losses.size() != reported.size() + 1) return false;
  for (std::size_t i = 0; i < reported.size(); ++i) {
    const double here = losses[i + 1];
    if (!(std::abs(reported[i].loss - here) <= reported[i].allowed(losses[0], here))) return false;
  }
  return true;
}

ExamReplay read_exam_replay(const std::filesystem::path& file) {
  auto replay = decoded<ExamReplay>(read_strict_json(file), file.string(), {.not_finite = false});
  const bool ascends =
      !replay.steps.empty() && replay.steps.front() >= 1 &&
      std::ranges::adjacent_find(replay.steps, std::ranges::greater_equal()) == replay.steps.end();
  if (!ascends)
    throw JsonError(
        fmt::format("{}: the steps of a replay must ascend and start at 1 or later", file.string()));
  if (!replay.reported.empty() && replay.reported.size() + 1 != replay.steps.size())
    throw JsonError(fmt::format("{}: {} losses of the run for {} steps of a replay; expected one less",
                                file.string(), replay.reported.size(), replay.steps.size()));
  return replay;
}

}  // namespace assay

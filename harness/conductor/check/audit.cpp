#include "harness/conductor/check/audit.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {
namespace {

constexpr std::size_t max_replayed = 3;
constexpr double replay_seconds = 1;  // of one replay
constexpr double near_share = 0.5;    // of what a loss may be apart: one replay is enough
constexpr std::uint64_t later_forks_per_chosen = 3;
constexpr double apart_factor = 10;
constexpr double mean_deviations = 6;  // exceeded by one correct difference in 5e8
constexpr double far_steps = 500;      // after which rounding errors do not grow further

// The relative difference of the loss that correct runs of the same steps may have.
double share_after(std::int64_t steps, bool narrow) {
  const double grown = std::min(1.0, static_cast<double>(steps) / far_steps);
  return narrow ? 0.01 + 0.1 * grown : 0.001 + 0.05 * grown;
}

}  // namespace

bool chosen_of_later_forks(std::uint64_t seed) {
  return Philox(seed, "later forks").below(later_forks_per_chosen) == 0;
}

std::vector<ReportedLoss> choose_replayed(std::span<const Block> blocks, std::uint64_t seed) {
  std::vector<ReportedLoss> within;
  std::int64_t steps = 0, ns = 0;
  for (const Block& block : blocks) {
    if (__builtin_add_overflow(steps, block.steps, &steps)) break;
    ns += block.end_ns - block.begin_ns;
    if (1e-9 * static_cast<double>(ns) > replay_seconds) break;
    // Skips the first step, which the exam already compared.
    if (block.loss && steps > 1) within.push_back({steps, *block.loss});
  }
  Philox(seed, "replay").shuffle(std::span(within));
  within.resize(std::min(within.size(), max_replayed));
  std::ranges::sort(within, {}, &ReportedLoss::steps);
  return within;
}

RunAudit audit_of_rank(const RunAudit& audit, std::span<const Block> own) {
  RunAudit result{.own_loader = audit.own_loader};
  std::int64_t steps = 0;
  for (const Block& block : own) {
    if (__builtin_add_overflow(steps, block.steps, &steps)) break;
    if (block.loss && std::ranges::find(audit.reported, steps, &ReportedLoss::steps) != audit.reported.end())
      result.reported.push_back({steps, *block.loss});
  }
  return result;
}

void write_audit(const std::filesystem::path& folder, const RunAudit& audit, const Precision& precision) {
  if (!audit.reported.empty()) {
    ExamReplay replay{{1}};
    for (const ReportedLoss& one : audit.reported) {
      replay.steps.push_back(one.steps);
      replay.reported.push_back({one.loss, near_share * share_after(one.steps, is_narrow(precision))});
    }
    const bool finite =
        std::ranges::all_of(replay.reported, [](const RunLoss& one) { return std::isfinite(one.loss); });
    if (!finite) replay.reported.clear();
    write_atomically(folder / "replay.json", encode(replay).dump() + "\n", false);
  }
  if (audit.own_loader) write_atomically(folder / "loader.json", encode(ExamLoader{}).dump() + "\n", false);
}

namespace {

std::vector<TensorVerdict> judge_replay(const TensorFile& worker, std::span<const ReportedLoss> reported,
                                        const Precision& precision) {
  const bool narrow = is_narrow(precision);
  const std::size_t count = reported.size() + 1;  // including the first step
  const HostTensor* found = worker.find("replay/losses");
  const auto has_replays = [&](std::int64_t replays) {
    return found != nullptr &&
           found->type == TensorType{DType::f32, {replays, static_cast<std::int64_t>(count)}};
  };
  const bool once_only = has_replays(1);
  const std::vector<double> losses =
      once_only || has_replays(2) ? to_doubles(*found) : std::vector<double>(2 * count, NAN);
  std::vector<TensorVerdict> verdicts;
  for (std::size_t i = 1; i < count; ++i) {
    const double once = losses[i], again = once_only ? once : losses[count + i];
    const RunLoss run{reported[i - 1].loss, share_after(reported[i - 1].steps, narrow)};
    const double allowed = run.allowed(losses[0], once) + apart_factor * std::abs(once - again);
    const double error = std::abs(run.loss - once);
    // A correct loss is not negative; a negative allowance allows nothing.
    const double ratio = error == 0 ? 0 : allowed > 0 ? error / allowed : beyond_measure;
    const bool finite = std::isfinite(error) && std::isfinite(allowed) && std::isfinite(ratio);
    verdicts.push_back({fmt::format("replay/{}", reported[i - 1].steps), finite ? error : beyond_measure,
                        finite ? allowed : 0, finite ? error : beyond_measure, finite ? allowed : 0,
                        finite ? std::min(ratio, beyond_measure) : beyond_measure});
  }
  return verdicts;
}

TensorVerdict judge_loader(const TensorFile& worker) {
  const std::string name = "loader/losses";
  const HostTensor* found = worker.find(name);
  const TensorVerdict lost = beyond_all_measure(name);
  if (found == nullptr || found->type.shape.size() != 2 || found->type.shape[0] != 2 ||
      found->type.shape[1] < 2)
    return lost;
  const std::vector<double> losses = to_doubles(*found);
  const std::size_t n = losses.size() / 2;
  double means[2] = {}, variances[2] = {};
  for (std::size_t i = 0; i < 2 * n; ++i) means[i / n] += losses[i] / static_cast<double>(n);
  for (std::size_t i = 0; i < 2 * n; ++i)
    variances[i / n] += (losses[i] - means[i / n]) * (losses[i] - means[i / n]) / static_cast<double>(n - 1);
  const double error = std::abs(means[0] - means[1]);
  const double bound =
      mean_deviations * std::sqrt((variances[0] + variances[1]) / static_cast<double>(n)) + 0.01 * means[1];
  if (!std::isfinite(error) || !std::isfinite(bound) || !(bound > 0)) return lost;
  return {name, error, bound, error, bound, std::min(beyond_measure, error / bound)};
}

}  // namespace

std::vector<TensorVerdict> judge_audit(const TensorFile& worker, const RunAudit& audit,
                                       const Precision& precision) {
  std::vector<TensorVerdict> verdicts;
  if (!audit.reported.empty()) verdicts = judge_replay(worker, audit.reported, precision);
  if (audit.own_loader) verdicts.push_back(judge_loader(worker));
  return verdicts;
}

}  // namespace assay

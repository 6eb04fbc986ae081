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

constexpr std::size_t max_replayed = 8;
constexpr double replay_seconds = 1;  // of the reported blocks
constexpr std::int64_t max_replayed_steps = 1000;
constexpr std::uint64_t later_forks_per_chosen = 3;
constexpr double replay_spread_factor = 10;
constexpr double mean_deviations = 6;  // exceeded by one correct difference in 5e8

}  // namespace

bool chosen_of_later_forks(std::uint64_t seed) {
  return Philox(seed, "later forks").below(later_forks_per_chosen) == 0;
}

std::vector<ReportedLoss> replayable(std::span<const Block> blocks) {
  std::vector<ReportedLoss> within;
  std::int64_t steps = 0, ns = 0;
  for (const Block& block : blocks) {
    if (__builtin_add_overflow(steps, block.steps, &steps) || steps > max_replayed_steps) break;
    ns += block.end_ns - block.begin_ns;
    if (1e-9 * static_cast<double>(ns) > replay_seconds) break;
    if (block.loss && steps > 1) within.push_back({steps, *block.loss});
  }
  std::vector<ReportedLoss> chosen;
  const std::size_t count = std::min(within.size(), max_replayed);
  for (std::size_t i = 1; i <= count; ++i) chosen.push_back(within[i * within.size() / count - 1]);
  return chosen;
}

std::optional<double> allowed_of_replay(double first, double here, double spread,
                                        const Precision& precision) {
  const bool narrow = is_narrow(precision);
  if (!std::isfinite(first) || !std::isfinite(here)) return std::nullopt;
  const double loss = std::max(first, here),
               allowed = std::max((narrow ? 0.01 : 1e-4) * loss, replay_spread_factor * spread);
  if (!(allowed <= (narrow ? 0.11 : 0.05) * loss)) return std::nullopt;
  return allowed;
}

void write_audit(const std::filesystem::path& folder, const RunAudit& audit) {
  if (audit.own_loader) write_atomically(folder / "loader.json", encode(ExamLoader{}).dump() + "\n", false);
  if (audit.results) write_run_question(folder, *audit.results);
}

namespace {

TensorVerdict judge_replayed(const std::string& name, const Replayed& one) {
  const double error = std::abs(one.reported - one.computed);
  if (!std::isfinite(error) || !std::isfinite(one.allowed)) return beyond_all_measure(name);
  return {name, error, one.allowed, error, one.allowed, ratio_of(error, one.allowed)};
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

std::vector<TensorVerdict> judge_audit(const TensorFile& worker, const RunAudit& audit) {
  std::vector<TensorVerdict> verdicts;
  for (const Replayed& one : audit.replayed) verdicts.push_back(judge_replayed(one.name, one));
  if (audit.next_loss) {
    Replayed next = *audit.next_loss;
    const HostTensor* found = worker.find(next.name);
    next.reported = found != nullptr && found->type.elements() == 1 ? to_doubles(*found)[0] : NAN;
    verdicts.push_back(judge_replayed(next.name, next));
  }
  if (audit.own_loader) verdicts.push_back(judge_loader(worker));
  return verdicts;
}

}  // namespace assay

#include "harness/conductor/check/audit.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/json/encode.hpp"

namespace assay {
namespace {

constexpr std::size_t max_replayed = 8;
constexpr double replay_seconds = 1;  // of the reported blocks
constexpr std::int64_t max_replayed_steps = 1000;
constexpr std::uint64_t later_forks_per_chosen = 3;
constexpr double replay_spread_factor = 10, min_spread_factor = 3;

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

std::int64_t affordable_steps(std::span<const std::int64_t> asked, double step_seconds) {
  std::int64_t last = 0;
  for (const std::int64_t steps : asked)
    if (static_cast<double>(steps) * step_seconds <= max_replay_seconds) last = steps;
  return last;
}

std::optional<double> allowed_of_replay(double first, double here, double spread,
                                        const Precision& precision) {
  const bool narrow = is_narrow(precision);
  if (!std::isfinite(first) || !std::isfinite(here)) return std::nullopt;
  const double loss = std::max(first, here), least = (narrow ? 0.01 : 1e-4) * loss,
               most = (narrow ? 0.11 : 0.05) * loss;
  if (!(loss >= 0 && min_spread_factor * spread <= most)) return std::nullopt;
  return std::clamp(replay_spread_factor * spread, least, most);
}

std::optional<ExamExcerpt> excerpt_of(std::int64_t state_bytes, std::uint64_t seed) {
  constexpr std::int64_t max_whole_bytes = std::int64_t{64} << 20, elements = 65'536;
  if (state_bytes <= max_whole_bytes) return std::nullopt;
  return ExamExcerpt{elements, Philox(seed, "excerpt").uniform_double()};
}

void write_audit(const std::filesystem::path& cell_folder, const RunAudit& audit) {
  if (audit.results) write_run_question(cell_folder, *audit.results);
  if (audit.excerpt)
    write_new_within(cell_folder, "check/excerpt.json", encode(*audit.excerpt).dump() + "\n");
}

namespace {

TensorVerdict judge_replayed(const std::string& name, const Replayed& one) {
  const double error = std::abs(one.reported - one.computed);
  if (!std::isfinite(error) || !std::isfinite(one.allowed)) return beyond_all_measure(name);
  return {name, error, one.allowed, error, one.allowed, ratio_of(error, one.allowed)};
}

TensorVerdict counted(std::string name, double found, double allowed) {
  return {std::move(name), found, allowed, found, allowed, ratio_of(found, allowed)};
}

// Rows of a pass that are not samples of a data set of `count`, or that came before.
double strange_rows(std::span<const double> pass, double count) {
  std::set<double> met;
  double strange = 0;
  for (const double number : pass) {
    const bool known = number >= 0 && number < count && number == std::floor(number);
    if (!known || !met.insert(number).second) ++strange;
  }
  return strange;
}

// The audits of an own loader and of an own loop have these.
constexpr std::int64_t passes = 2, min_batches = 12;
constexpr double allowed_share = 0.5;  // of places at which an order may be another one's

// The share of places at which two passes have the same loss.
double share_alike(std::span<const double> one, std::span<const double> other) {
  constexpr double rounding = 2e-6;
  double alike = 0;
  for (std::size_t i = 0; i < one.size(); ++i) alike += std::abs(one[i] - other[i]) <= rounding * other[i];
  return alike / static_cast<double>(one.size());
}

// (1 + passes, batches): the losses of a data set's batches, and those of the passes of a framework's own loop.
std::vector<TensorVerdict> judge_fit(const HostTensor& found, const Precision& precision) {
  constexpr double min_spread = 1e-3;
  if (found.type.shape.size() != 2 || found.type.shape[0] != 1 + passes || found.type.shape[1] < min_batches)
    return {beyond_all_measure(found.name)};
  const std::vector<double> losses = to_doubles(found);
  if (!std::ranges::all_of(losses, [](double loss) { return std::isfinite(loss); }))
    return {beyond_all_measure(found.name)};
  const auto row = [&](std::int64_t number) {
    const std::size_t batches = losses.size() / (1 + passes);
    return std::span(losses).subspan(static_cast<std::size_t>(number) * batches, batches);
  };
  const auto mean = [](std::span<const double> of) {
    return std::reduce(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
  };
  const std::span<const double> plain = row(0), first = row(1), second = row(2);
  const double error = std::max(std::abs(mean(first) - mean(plain)), std::abs(mean(second) - mean(plain)));
  std::vector<TensorVerdict> verdicts = {
      counted(found.name, error, (is_narrow(precision) ? 1e-2 : 1e-4) * mean(plain))};
  // The order shows only where losses differ by more than roundings.
  const auto [least, most] = std::ranges::minmax(plain);
  if (!is_narrow(precision) && most - least > min_spread * most) {
    verdicts.push_back(counted(
        "loader/fit_order", std::max(share_alike(first, plain), share_alike(second, plain)), allowed_share));
    verdicts.push_back(counted("loader/fit_passes", share_alike(first, second), allowed_share));
  }
  return verdicts;
}

// Of steps that must be the same.
double share_of_loss(const Precision& precision) { return is_narrow(precision) ? 2e-2 : 5e-4; }

// (after the framework's own loop, after the same steps without it): a batch that the steps were to learn.
TensorVerdict judge_trained(const HostTensor& found, double before, const Precision& precision) {
  const std::vector<double> losses = to_doubles(found);
  if (losses.size() != 2) return beyond_all_measure(found.name);
  const double error = std::abs(losses[0] - losses[1]);
  if (!std::isfinite(error) || !std::isfinite(before)) return beyond_all_measure(found.name);
  return counted(found.name, error, share_of_loss(precision) * std::max(before, losses[1]));
}

// (2, steps): the largest difference, as a share of the loss.
TensorVerdict judge_losses(const TensorFile& worker, const Precision& precision) {
  constexpr std::int64_t min_steps = 3;
  const std::string name = "loader/losses";
  const HostTensor* found = worker.find(name);
  if (found == nullptr || found->type.shape.size() != 2 || found->type.shape[0] != 2 ||
      found->type.shape[1] < min_steps)
    return beyond_all_measure(name);
  const std::vector<double> losses = to_doubles(*found);
  const std::span<const double> loaded(losses.data(), losses.size() / 2),
      staged(losses.data() + loaded.size(), loaded.size());
  double error = 0;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    // The steps of both lead to infinity: the learning rate is too large, and what comes after it says nothing.
    if (i > 0 && !std::isfinite(loaded[i]) && !std::isfinite(staged[i])) break;
    const double share = std::abs(loaded[i] - staged[i]) / std::max(staged[0], staged[i]);
    if (!std::isfinite(share)) return beyond_all_measure(name);
    error = std::max(error, share);
  }
  return counted(name, error, share_of_loss(precision));
}

std::vector<TensorVerdict> judge_loader(const TensorFile& worker, const Precision& precision,
                                        bool draws_masks) {
  constexpr double near = 0.05;  // of all samples
  constexpr double allowed_rows = 0.5;
  const std::string name = "loader/samples";
  const HostTensor* found = worker.find(name);
  if (found == nullptr || found->type.shape.size() != 3 || found->type.shape[0] != passes ||
      found->type.shape[1] < min_batches || found->type.shape[2] < 1)
    return {beyond_all_measure(name)};
  const std::vector<double> numbers = to_doubles(*found);
  const std::size_t rows = numbers.size() / passes;
  const std::span<const double> first(numbers.data(), rows), second(numbers.data() + rows, rows);
  const std::int64_t left_over = found->type.shape[2] / 2;
  const double count = static_cast<double>(rows) + static_cast<double>(left_over);
  double strange = 0, at_home = 0, alike = 0;
  for (const std::span<const double> pass : {first, second}) {
    strange += strange_rows(pass, count);
    double close = 0;
    for (std::size_t i = 0; i < rows; ++i)
      close += std::abs(pass[i] - static_cast<double>(i)) <= near * count;
    at_home = std::max(at_home, close / static_cast<double>(rows));
  }
  for (std::size_t i = 0; i < rows; ++i) alike += first[i] == second[i];
  std::vector<TensorVerdict> verdicts = {
      counted(name, strange, allowed_rows), counted("loader/order", at_home, allowed_share),
      counted("loader/passes", alike / static_cast<double>(rows), allowed_share)};
  if (!draws_masks || worker.find("loader/losses") != nullptr)
    verdicts.push_back(judge_losses(worker, precision));
  if (const HostTensor* fit = worker.find("loader/fit")) {
    std::ranges::copy(judge_fit(*fit, precision), std::back_inserter(verdicts));
    const HostTensor* trained = worker.find("loader/trained");
    verdicts.push_back(trained == nullptr || fit->type.elements() == 0
                           ? beyond_all_measure("loader/trained")
                           : judge_trained(*trained, to_doubles(*fit).front(), precision));
  }
  return verdicts;
}

}  // namespace

std::vector<TensorVerdict> judge_audit(const TensorFile& worker, const RunAudit& audit,
                                       const Precision& precision) {
  std::vector<TensorVerdict> verdicts;
  for (const Replayed& one : audit.replayed) verdicts.push_back(judge_replayed(one.name, one));
  if (audit.next_loss) {
    Replayed next = *audit.next_loss;
    const HostTensor* found = worker.find(next.name);
    next.reported = found != nullptr && found->type.elements() == 1 ? to_doubles(*found)[0] : NAN;
    verdicts.push_back(judge_replayed(next.name, next));
  }
  if (audit.own_loader)
    std::ranges::copy(judge_loader(worker, precision, audit.draws_masks), std::back_inserter(verdicts));
  return verdicts;
}

}  // namespace assay

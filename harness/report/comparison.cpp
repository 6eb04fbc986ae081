#include "harness/report/analysis.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/metrics.hpp"

namespace assay {
namespace {

using ByRound = std::map<RoundKey, double>;

// A run may check its ratios after each round and add rounds until they are clear. To keep the chance of an
// interval without the true ratio below 5 % over all checks, the first check (six rounds, 3.1 %) uses most of
// it; later ones use 0.4 % each, and Rounds makes at most four of them.
constexpr double confidence_of_looks = 0.996;

std::optional<Interval> ratio_interval(const std::vector<double>& ratios) {
  if (const auto narrow = median_interval(ratios, confidence_of_looks)) return narrow;
  if (ratios.size() < rounds_for_interval) return std::nullopt;
  return median_interval(ratios, attainable_paired(static_cast<int>(ratios.size())) - 1e-9);
}

std::optional<PairedRatio> paired(const ByRound& a, const ByRound& b) {
  std::vector<std::optional<double>> left, right;
  for (const auto& [round, value] : a) {
    left.emplace_back(value);
    const auto found = b.find(round);
    right.push_back(found == b.end() || found->second == 0 ? std::nullopt : std::optional(found->second));
  }
  const std::vector<double> ratios = paired_ratios(left, right);
  if (ratios.empty()) return std::nullopt;
  return over_rounds(ratios);
}

// Two machines of a merged report have sessions and rounds of the same numbers.
bool ran_together(const CellReport& a, const CellReport& b) { return a.environment == b.environment; }

// Values for the forks of the metric.
ByRound values_by_round(const CellReport& cell, std::string_view metric) {
  ByRound values;
  for (const Fork* fork : forks_of_metric(cell, metric))
    if (const auto value = fork_metric(cell, *fork, metric)) values[round_of(*fork)] = *value;
  return values;
}

// See follows_from_seed(): of rounds with one seed and the same values on both sides, the first stays.
void keep_one_of_each_seed(ByRound& left, const ByRound& right, const CellReport& cell) {
  std::set<std::tuple<std::uint64_t, double, double>> seen;
  for (const Fork& fork : cell.forks) {
    const auto a = left.find(round_of(fork));
    const auto b = right.find(round_of(fork));
    if (a == left.end() || b == right.end()) continue;
    if (!seen.emplace(fork.seed, a->second, b->second).second) left.erase(a);
  }
}

}  // namespace

ByRound counted_times(const CellReport& cell) {
  ByRound times;
  if (is_clean(cell))
    for (const Fork& fork : cell.forks)
      if (const auto time = fork_time(fork); time && counts(fork)) times[round_of(fork)] = time->step_seconds;
  return times;
}

SharedRounds shared_rounds(const CellReport& a, const CellReport& b) {
  std::map<RoundKey, const Fork*> others;
  for (const Fork& fork : b.forks) others[round_of(fork)] = &fork;
  SharedRounds shared;
  for (const Fork& fork : a.forks) {
    const auto other = others.find(round_of(fork));
    if (other == others.end()) continue;
    ++shared.all;
    if (fork.status == Status::ok && other->second->status == Status::ok) ++shared.ok;
    if (counts(fork) && counts(*other->second)) ++shared.counting;
  }
  return shared;
}

PairedRatio over_rounds(const std::vector<double>& values) {
  PairedRatio out;
  out.value = median(values);
  out.n = static_cast<int>(values.size());
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  out.least = *least;
  out.greatest = *greatest;
  if (const auto interval = ratio_interval(values)) {
    out.lower = interval->lower;
    out.upper = interval->upper;
    out.confidence = interval->confidence;
  }
  return out;
}

std::optional<PairedRatio> time_ratio(const CellReport& a, const CellReport& b) {
  if (!ran_together(a, b)) return std::nullopt;
  return paired(counted_times(a), counted_times(b));
}

std::optional<PairedRatio> metric_ratio(const CellReport& a, const CellReport& b, std::string_view metric) {
  return metric_ratio(a, metric, b, metric);
}

std::optional<PairedRatio> metric_ratio(const CellReport& a, std::string_view metric, const CellReport& b,
                                        std::string_view other_metric) {
  if (!ran_together(a, b)) return std::nullopt;
  ByRound left = values_by_round(a, metric);
  const ByRound right = values_by_round(b, other_metric);
  if (follows_from_seed(metric)) keep_one_of_each_seed(left, right, a);
  return paired(left, right);
}

std::optional<PairedRatio> metric_over_rounds(const CellReport& cell, std::string_view metric) {
  const auto found = cell.metrics.find(metric);
  if (found == cell.metrics.end() || !found->second.value) return std::nullopt;
  const Metric& known = found->second;
  PairedRatio out{.value = *known.value, .least = *known.value, .greatest = *known.value};
  out.lower = known.lower;
  out.upper = known.upper;
  out.confidence = known.confidence;
  for (const auto& [round, value] : values_by_round(cell, metric)) {
    out.least = std::min(out.least, value);
    out.greatest = std::max(out.greatest, value);
    ++out.n;
  }
  return out;
}

std::optional<double> ranked_time(const CellReport& cell) {
  std::vector<double> times;
  for (const auto& [round, time] : counted_times(cell)) times.push_back(time);
  if (times.empty()) return std::nullopt;
  return median(times);
}

}  // namespace assay

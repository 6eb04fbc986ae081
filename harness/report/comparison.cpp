#include "harness/report/analysis.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"

namespace assay {
namespace {

std::map<int, double> counted_times(const CellReport& cell) {
  std::map<int, double> times;
  if (is_clean(cell))
    for (const Fork& fork : cell.forks)
      if (const auto time = fork_time(fork); time && counts(fork)) times[fork.round] = time->step_seconds;
  return times;
}

// A run may look at its ratios after each round and add rounds until they are clear. So that the chance of an
// interval without the true ratio stays below 5 % over all looks, the first (six rounds, 3.1 %) takes most of it, and
// later ones 0.4 % each, of which Rounds takes no more than four.
constexpr double confidence_of_looks = 0.996;

std::optional<Interval> ratio_interval(const std::vector<double>& ratios) {
  if (const auto narrow = median_interval(ratios, confidence_of_looks)) return narrow;
  if (ratios.size() < rounds_for_interval) return std::nullopt;
  return median_interval(ratios, attainable_paired(static_cast<int>(ratios.size())) - 1e-9);
}

}  // namespace

std::optional<PairedRatio> time_ratio(const CellReport& a, const CellReport& b) {
  const auto times_a = counted_times(a), times_b = counted_times(b);
  std::vector<std::optional<double>> left, right;
  for (const auto& [round, time] : times_a) {
    left.emplace_back(time);
    const auto found = times_b.find(round);
    right.push_back(found == times_b.end() ? std::nullopt : std::optional(found->second));
  }
  const std::vector<double> ratios = paired_ratios(left, right);
  if (ratios.empty()) return std::nullopt;
  PairedRatio out;
  out.value = median(ratios);
  out.n = static_cast<int>(ratios.size());
  const auto [least, greatest] = std::minmax_element(ratios.begin(), ratios.end());
  out.least = *least;
  out.greatest = *greatest;
  if (const auto interval = ratio_interval(ratios)) {
    out.lower = interval->lower;
    out.upper = interval->upper;
    out.confidence = interval->confidence;
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

#include "harness/report/analysis.hpp"

#include <map>
#include <vector>

#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"

namespace assay {
namespace {

std::map<int, double> clean_times(const CellReport& cell) {
  std::map<int, double> times;
  if (is_clean(cell))
    for (const Fork& fork : cell.forks)
      if (const auto time = fork_time(fork); time && is_clean(fork)) times[fork.round] = time->step_seconds;
  return times;
}

}  // namespace

std::optional<PairedRatio> time_ratio(const CellReport& a, const CellReport& b) {
  const auto times_a = clean_times(a), times_b = clean_times(b);
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
  if (const auto interval = median_interval(ratios)) {
    out.lower = interval->lower;
    out.upper = interval->upper;
    out.confidence = interval->confidence;
  }
  return out;
}

std::optional<double> ranked_time(const CellReport& cell) {
  std::vector<double> times;
  for (const auto& [round, time] : clean_times(cell)) times.push_back(time);
  if (times.empty()) return std::nullopt;
  return median(times);
}

}  // namespace assay

#include "harness/report/comparison.hpp"

#include <algorithm>
#include <map>

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

std::vector<ComparisonGroup> comparison_groups(const Report& report) {
  std::vector<ComparisonGroup> groups;
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    const std::string title = group_title(report.cells[i].axes);
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& one) { return one.title == title; });
    if (group == groups.end()) group = groups.insert(groups.end(), {title, {}});
    group->cells.push_back(i);
  }
  return groups;
}

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

std::optional<std::size_t> baseline(const Report& report, const ComparisonGroup& group) {
  std::optional<std::size_t> best;
  for (const bool bare : {true, false}) {
    for (const std::size_t i : group.cells) {
      const CellReport& cell = report.cells[i];
      const auto time = ranked_time(cell);
      if (!time || (bare && cell.kind != "bare")) continue;
      if (!best || *time < *ranked_time(report.cells[*best])) best = i;
    }
    if (best) break;
  }
  return best;
}

}  // namespace assay

#include "harness/report/comparison.hpp"

#include <map>
#include <vector>

#include <fmt/format.h>

#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"

namespace assay {
namespace {

std::string op_family(const Axes& axes) {
  std::string title = fmt::format("{} {} {}, {} t{}, {} cache", axes.workload, axes.task, axes.precision,
                                  axes.device, axes.threads, axes.cache);
  if (axes.compile_cache != "cold") title += ", cache-" + axes.compile_cache;
  if (axes.deterministic) title += ", deterministic";
  return title;
}

std::string network_title(const Axes& axes, const std::string& batch) {
  std::string title = fmt::format("{} {} {}{}", axes.workload, axes.task, axes.precision, batch);
  if (!axes.dataset.empty()) title += " " + axes.dataset;
  if (!axes.optimizer.empty()) title += " " + axes.optimizer;
  title += fmt::format(", {} t{}, {}", axes.device, axes.threads, axes.loader);
  if (axes.loader != "resident") title += fmt::format(" w{}", axes.loader_workers);
  if (axes.compile_cache != "cold") title += " cache-" + axes.compile_cache;
  if (axes.deterministic) title += " deterministic";
  for (const auto& [option, value] : axes.variant) title += fmt::format(", {} {}", option, value);
  return title + ", " + axes.measure;
}

std::map<int, double> clean_times(const CellReport& cell) {
  std::map<int, double> times;
  if (is_clean(cell))
    for (const Fork& fork : cell.forks)
      if (const auto time = fork_time(fork); time && is_clean(fork)) times[fork.round] = time->step_seconds;
  return times;
}

}  // namespace

std::string group_title(const Axes& axes) {
  if (!axes.is_op()) return network_title(axes, fmt::format(" b{}", axes.batch));
  std::string title = op_family(axes);
  return title.insert(title.find(','), " " + axes.size);
}

std::string family_title(const Axes& axes) {
  return axes.is_op() ? op_family(axes) : network_title(axes, "");
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

}  // namespace assay

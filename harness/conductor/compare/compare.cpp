#include "harness/conductor/compare/compare.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/compare/cell_judge.hpp"
#include "harness/conductor/compare/time_judge.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/conductor/print/table.hpp"
#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/metric_table.hpp"

namespace assay {
namespace {

std::ptrdiff_t attention(Verdict verdict) {
  return std::find(verdicts.begin(), verdicts.end(), verdict) - verdicts.begin();
}

struct Pair {
  const CellReport* base = nullptr;
  const CellReport* current = nullptr;
};

std::map<std::string, Pair> pairs_of(const Report& base, const Report& current, const std::string& filter) {
  std::map<std::string, Pair> pairs;
  std::vector<std::string> ids;
  for (const Report* report : {&base, &current})
    for (const CellReport& cell : report->cells) ids.push_back(cell.id);
  check_filter(filter, ids, "compare");
  const auto wanted = [&](const CellReport& cell) { return is_wanted(cell.id, filter); };
  const auto take = [&](const Report& report, const CellReport* Pair::* side, const char* name) {
    for (const CellReport& cell : report.cells) {
      if (!wanted(cell)) continue;
      // It is not clear which of the two rows is meant.
      if (std::exchange(pairs[cell.id].*side, &cell))
        throw ConfigError(fmt::format("[compare] {} has the cell {} twice", name, one_line(cell.id, 200)));
    }
  };
  take(base, &Pair::base, "the baseline");
  take(current, &Pair::current, "the new report");
  if (pairs.empty()) throw ConfigError("[compare] neither report has a cell");
  return pairs;
}

void require_metric(const std::string& metric) {
  std::vector<std::string> known;
  for (const MetricRow& row : metric_table())
    if (row.section != Section::memory_plans) known.emplace_back(row.name);
  if (metric.empty() || contains(known, metric)) return;
  throw ConfigError(fmt::format("[compare] unknown metric '{}'{}", metric, suggestion(metric, known)));
}

CellVerdict verdict_of_one_side(const std::string& id, const Pair& pair) {
  CellVerdict cell;
  cell.id = id;
  const CellReport& there = pair.base ? *pair.base : *pair.current;
  cell.verdict = pair.base ? Verdict::missing : Verdict::added;
  cell.reason = fmt::format("only in {}, with the status {}", pair.base ? "the baseline" : "the new report",
                            to_string(there.status));
  return cell;
}

class Judge {
 public:
  Judge(const CompareSettings& settings, double confidence) : settings_(settings), confidence_(confidence) {
    breakage_.confidence = confidence;
  }

  CellVerdict operator()(const Side& base, const Side& current) const {
    const std::string metric = settings_.metric.empty() ? main_metric(base.cell.axes) : settings_.metric;
    return judge_pair(base.cell, current.cell, metric, breakage_, [&] {
      CellVerdict cell = by_statistics(base.cell, current.cell, metric);
      if (std::string doubt = doubt_about(base, current, settings_.overlooked); !doubt.empty()) {
        cell.verdict = Verdict::inconclusive;
        cell.forks_needed.reset();
        cell.reason = std::move(doubt);
      }
      return cell;
    });
  }

 private:
  CellVerdict by_statistics(const CellReport& base, const CellReport& current,
                            const std::string& metric) const {
    const auto before = fork_values(base, metric), after = fork_values(current, metric);
    CellVerdict cell = judge_times(before, after,
                                   {.threshold = settings_.threshold,
                                    .confidence = confidence_,
                                    .between_runs = between_runs(base.id, metric),
                                    .higher_is_better = higher_is_better(metric)});
    if (before.empty() || after.empty())
      cell.reason =
          fmt::format("{} has no value in {}", metric, before.empty() ? "the baseline" : "the new report");
    if (!before.empty()) cell.base = median(before);
    if (!after.empty()) cell.current = median(after);
    return cell;
  }

  RunSpread between_runs(const std::string& id, const std::string& metric) const {
    const auto of_metric = settings_.between_runs.find(metric);
    if (of_metric == settings_.between_runs.end()) return {};
    auto found = of_metric->second.find(id);
    if (found == of_metric->second.end()) found = of_metric->second.find("");
    return found == of_metric->second.end() ? RunSpread{} : found->second;
  }

  const CompareSettings& settings_;
  BreakageSettings breakage_ = settings_.breakage;
  double confidence_;
};

bool both_ok(const Pair& pair) {
  return pair.base && pair.current && pair.base->status == Status::ok && pair.current->status == Status::ok;
}

// Adds a note if no cell has enough forks to be decided with any result.
void note_missing_forks(Comparison& comparison) {
  const bool some = std::any_of(comparison.cells.begin(), comparison.cells.end(),
                                [](const CellVerdict& cell) { return cell.lower.has_value(); });
  if (comparison.judged == 0 || some) return;
  comparison.notes.push_back(fmt::format(
      "No cell can be decided with so few forks: {:.3g} % confidence over {} cell{} needs at least {} forks per side "
      "(assay run --forks {})",
      100 * comparison.confidence, comparison.judged, comparison.judged == 1 ? "" : "s",
      min_forks_for(comparison.cell_confidence), min_forks_for(comparison.cell_confidence)));
}

}  // namespace

Comparison compare(const Report& base, const Report& current, const CompareSettings& settings) {
  require_metric(settings.metric);
  const auto pairs = pairs_of(base, current, settings.filter);
  Comparison result;
  result.threshold = settings.threshold;
  result.confidence = settings.confidence;
  result.judged = static_cast<int>(
      std::count_if(pairs.begin(), pairs.end(), [](const auto& entry) { return both_ok(entry.second); }));
  result.overlooked = settings.overlooked;
  int intervals = 0;
  for (const auto& [id, pair] : pairs)
    if (both_ok(pair)) intervals += 1 + accuracies_of(*pair.base, *pair.current);
  result.cell_confidence = 1 - (1 - settings.confidence) / std::max(1, intervals);
  result.environment = environment_differences(base, current);
  const Judge judge(settings, result.cell_confidence);
  for (const auto& [id, pair] : pairs)
    result.cells.push_back(pair.base && pair.current
                               ? judge(Side{base, *pair.base}, Side{current, *pair.current})
                               : verdict_of_one_side(id, pair));
  note_missing_forks(result);
  sort_by_attention(result.cells);
  return result;
}

void sort_by_attention(std::vector<CellVerdict>& cells) {
  std::stable_sort(cells.begin(), cells.end(), [](const CellVerdict& a, const CellVerdict& b) {
    if (a.verdict != b.verdict) return attention(a.verdict) < attention(b.verdict);
    return a.ratio.value_or(1) > b.ratio.value_or(1);
  });
}

int Comparison::count(Verdict verdict) const {
  return static_cast<int>(
      std::count_if(cells.begin(), cells.end(), [&](const auto& cell) { return cell.verdict == verdict; }));
}

bool Comparison::comparable() const {
  return std::ranges::all_of(environment, [&](const auto& one) { return overlooked.covers(one); });
}

std::string summary_line(const Comparison& comparison) {
  std::string counts;
  for (const Verdict verdict : verdicts) {
    if (const int count = comparison.count(verdict))
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, to_string(verdict));
  }
  return fmt::format(
      "{} of {} cell{}; threshold {:.3g} %, all intervals hold at once with {:.3g} % ({:.5g} % each)", counts,
      comparison.cells.size(), comparison.cells.size() == 1 ? "" : "s", 100 * comparison.threshold,
      100 * comparison.confidence, 100 * comparison.cell_confidence);
}

}  // namespace assay

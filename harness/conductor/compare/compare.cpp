#include "harness/conductor/compare/compare.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/compare/cell_decision.hpp"
#include "harness/conductor/compare/run_model.hpp"
#include "harness/conductor/compare/time_decision.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/conductor/print/table.hpp"
#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/core_placement.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/network_change.hpp"

namespace assay {
namespace {

std::ptrdiff_t attention(Verdict verdict) {
  return std::find(verdicts.begin(), verdicts.end(), verdict) - verdicts.begin();
}

// A cell by its id: its row in each baseline (nullptr if that does not have it) and in the new report.
struct ComparedCell {
  std::vector<const CellReport*> base;
  const CellReport* current = nullptr;

  // The row of the newest baseline that has it and, if there is one, in which it is ok.
  std::size_t newest() const {
    std::size_t found = base.size();
    for (std::size_t i = base.size(); i-- > 0;) {
      if (!base[i]) continue;
      if (base[i]->status == Status::ok) return i;
      if (found == base.size()) found = i;
    }
    return found;
  }
  const CellReport* newest_base() const { return newest() < base.size() ? base[newest()] : nullptr; }
  bool is_ok() const {
    return newest_base() && current && newest_base()->status == Status::ok && current->status == Status::ok;
  }
};
using ComparedCells = std::map<std::string, ComparedCell>;

ComparedCells entries_of(const std::vector<const Report*>& bases, const Report& current,
                         const std::string& filter) {
  ComparedCells entries;
  std::vector<std::string> ids;
  for (const Report* report : {bases.back(), &current})
    for (const CellReport& cell : report->cells) ids.push_back(cell.id);
  check_filter(filter, ids, "compare");
  const auto rows = [&](const Report& report, const std::string& name, auto take) {
    std::set<std::string> seen;
    for (const CellReport& cell : report.cells) {
      if (!is_wanted(cell.id, filter)) continue;
      // It is not clear which of the two rows is meant.
      if (!seen.insert(cell.id).second)
        throw ConfigError(fmt::format("[compare] {} has the cell {} twice", name, one_line(cell.id, 200)));
      ComparedCell& entry = entries[cell.id];
      entry.base.resize(bases.size());
      take(entry, cell);
    }
  };
  for (std::size_t i = 0; i < bases.size(); ++i)
    rows(*bases[i], bases.size() == 1 ? "the baseline" : fmt::format("baseline {}", i + 1),
         [&](ComparedCell& entry, const CellReport& cell) { entry.base[i] = &cell; });
  rows(current, "the new report", [](ComparedCell& entry, const CellReport& cell) { entry.current = &cell; });
  // The newest baseline says which cells there are.
  std::erase_if(entries, [](const auto& one) { return !one.second.current && !one.second.base.back(); });
  if (entries.empty()) throw ConfigError("[compare] neither report has a cell");
  return entries;
}

void require_metric(const std::string& metric) {
  std::vector<std::string> known;
  for (const MetricRow& row : metric_table())
    if (row.section != Section::memory_plans) known.emplace_back(row.name);
  if (metric.empty() || contains(known, metric)) return;
  throw ConfigError(fmt::format("[compare] unknown metric '{}'{}", metric, suggestion(metric, known)));
}

CellVerdict verdict_of_one_side(const std::string& id, const ComparedCell& entry) {
  CellVerdict cell;
  cell.id = id;
  const CellReport& there = entry.current ? *entry.current : *entry.base.back();
  cell.verdict = entry.current ? Verdict::added : Verdict::missing;
  cell.reason = fmt::format("only in {}, with the status {}",
                            entry.current ? "the new report" : "the baseline", to_string(there.status));
  return cell;
}

// A cell that is ok on both sides: what is compared, or why nothing is.
struct Candidate {
  const ComparedCell* entry = nullptr;
  std::string metric;
  std::string doubt;  // empty: the baselines in `used` are compared
  std::vector<std::size_t> used;
  std::vector<double> base, current;  // values of forks
  std::optional<Scale> scale;
  ModelCell model;
};

class Comparing {
 public:
  Comparing(std::vector<const Report*> bases, const Report& current, const CompareSettings& settings)
      : settings_(settings), current_(current) {
    result_.overlooked = settings.overlooked;
    result_.threshold = settings.threshold;
    result_.confidence = settings.confidence;
    result_.detect = settings.detect > 0 ? settings.detect : usual_detect_factor * settings.threshold;
    choose_baselines(std::move(bases));
  }

  Comparison run() {
    const ComparedCells entries = entries_of(bases_, current_, settings_.filter);
    if (!settings_.overlooked.contains(Overlooked::flags) && is_one_machine())
      usual_ = usual_placement(entries);
    for (const auto& [id, entry] : entries)
      if (entry.is_ok()) candidates_.emplace(id, candidate(entry));
    decide();
    share_accuracy_error();
    for (const auto& [id, entry] : entries)
      result_.cells.push_back(entry.current && entry.newest_base() ? verdict(id, entry)
                                                                   : verdict_of_one_side(id, entry));
    note_other_networks();
    note_left_out();
    note_moved();
    sort_by_attention(result_.cells);
    return std::move(result_);
  }

 private:
  // Leaves out baselines that are not comparable, unless none is.
  void choose_baselines(std::vector<const Report*> all) {
    std::string why;
    std::size_t others = 0;
    std::vector<EnvironmentDifference> of_newest;
    for (const Report* base : all) {
      std::vector<EnvironmentDifference> found = environment_differences(*base, current_);
      const auto hard =
          std::ranges::find_if(found, [&](const auto& one) { return !result_.overlooked.covers(one); });
      if (hard == found.end()) {
        bases_.push_back(base);
        for (EnvironmentDifference& one : found)
          if (std::ranges::find(result_.environment, one) == result_.environment.end())
            result_.environment.push_back(std::move(one));
        continue;
      }
      ++others;
      why = fmt::format("{} was {} and is {}", hard->what, one_line(hard->base, 100),
                        one_line(hard->current, 100));
      of_newest = std::move(found);
    }
    if (bases_.empty()) {
      bases_ = std::move(all);
      result_.environment = std::move(of_newest);
    } else if (others > 0) {
      result_.notes.push_back(fmt::format("left out {} of {} baselines: {}", others, all.size(), why));
    }
    result_.baselines = static_cast<int>(bases_.size());
  }

  std::string metric_of(const CellReport& cell) const {
    return settings_.metric.empty() ? main_metric(cell.axes) : settings_.metric;
  }

  Candidate candidate(const ComparedCell& entry) {
    Candidate found;
    found.entry = &entry;
    found.metric = metric_of(*entry.current);
    found.current = fork_values(*entry.current, found.metric, usual_);
    std::vector<std::vector<double>> values(entry.base.size());
    std::string doubt;
    for (std::size_t i = 0; i < entry.base.size(); ++i) {
      if (!entry.base[i] || entry.base[i]->status != Status::ok) continue;
      values[i] = fork_values(*entry.base[i], found.metric, usual_);
      std::string why =
          doubt_about(Side{*bases_[i], *entry.base[i]}, Side{current_, *entry.current}, settings_.overlooked);
      if (why.empty()) why = doubt_about_placement(*entry.base[i], *entry.current);
      if (why.empty() && !values[i].empty()) found.used.push_back(i);
      if (!why.empty()) doubt = std::move(why);
    }
    if (found.used.empty()) {
      found.doubt = doubt;
      found.used = {entry.newest()};
    } else if (!doubt.empty()) {
      left_out_ = doubt;
      ++cells_with_fewer_;
    }
    for (const std::size_t i : found.used)
      found.base.insert(found.base.end(), values[i].begin(), values[i].end());
    if (found.base.empty() || found.current.empty()) return found;
    found.scale.emplace(found.base, found.current, higher_is_better(found.metric));
    found.model.base.resize(entry.base.size());
    for (const std::size_t i : found.used) found.model.base[i] = (*found.scale)(values[i]);
    found.model.current = (*found.scale)(found.current);
    return found;
  }

  bool is_one_machine() const {
    using enum DifferenceKind;
    return std::ranges::none_of(result_.environment, [](const EnvironmentDifference& one) {
      return one.hard && (one.kind == processor || one.kind == speed || one.kind == cpus);
    });
  }

  static UsualPlacement usual_placement(const ComparedCells& entries) {
    std::vector<const CellReport*> cells;
    for (const auto& [id, entry] : entries) {
      if (entry.current) cells.push_back(entry.current);
      for (const CellReport* base : entry.base)
        if (base) cells.push_back(base);
    }
    return UsualPlacement(cells);
  }

  struct Moved {
    int moved = 0, counted = 0;  // forks
  };
  Moved moved_forks(const CellReport& cell) const {
    const std::vector<const Fork*> forks = counted_forks(cell);
    const auto moved =
        std::ranges::count_if(forks, [&](const Fork* fork) { return usual_.is_moved(cell, *fork); });
    return {static_cast<int>(moved), static_cast<int>(forks.size())};
  }

  // Why the placement of the processors leaves nothing to compare; empty if it does not.
  std::string doubt_about_placement(const CellReport& base, const CellReport& current) const {
    for (const CellReport* cell : {&base, &current})
      if (const Moved forks = moved_forks(*cell); forks.moved > 0 && forks.moved == forks.counted)
        return fmt::format(
            "in every fork of {} the host had the processors on one core, or far apart; measure again, or overlook it with "
            "--allow flags",
            cell == &base ? "the baseline" : "the new report");
    return {};
  }

  ModelSettings model_settings() const {
    return {.threshold = std::log1p(settings_.threshold),
            .confidence = settings_.confidence,
            .prior_deviation = prior_run_deviation,
            .prior_degrees = prior_run_degrees};
  }

  void decide() {
    std::vector<ModelCell> cells;
    std::set<std::string> metrics;
    for (const auto& [id, one] : candidates_) {
      cells.push_back(one.model);
      metrics.insert(one.metric);
    }
    std::vector<History> histories;
    for (const MetricHistory& history : settings_.histories)
      if (metrics.contains(history.metric)) histories.push_back(history.cells);
    const ModelResult model = decide_runs(cells, histories, model_settings());
    result_.compared = static_cast<int>(candidates_.size());
    result_.cell_confidence = model.confidence;
    std::size_t i = 0;
    for (const auto& [id, one] : candidates_) changes_[id] = model.cells[i++];
    if (model.shift) {
      result_.shift = SharedShift{.ratio = std::exp(model.shift->estimate),
                                  .lower = std::exp(model.shift->lower),
                                  .upper = std::exp(model.shift->upper),
                                  .cells = static_cast<int>(std::ranges::count_if(
                                      model.cells, [](const auto& change) { return change.has_value(); })),
                                  .loop = loop_ratio(bases_.back()->environment, current_.environment)};
    }
  }

  // Accuracies have an error of their own, which they share (Bonferroni).
  void share_accuracy_error() {
    int count = 0;
    for (const auto& [id, one] : candidates_)
      count += accuracies_of(*one.entry->newest_base(), *one.entry->current);
    breakage_.accuracy_error /= std::max(1, count);
  }

  CellVerdict verdict(const std::string& id, const ComparedCell& entry) {
    const auto found = candidates_.find(id);
    const CellReport& base = *entry.newest_base();
    return decide_pair(base, *entry.current, metric_of(*entry.current), breakage_,
                       [&] { return decided(found->second, changes_.at(id)); });
  }

  CellVerdict decided(const Candidate& one, const std::optional<CellChange>& change) const {
    CellVerdict cell;
    cell.base_forks = static_cast<int>(one.base.size());
    cell.current_forks = static_cast<int>(one.current.size());
    cell.baselines = static_cast<int>(one.used.size());
    if (!one.base.empty()) cell.base = median(one.base);
    if (!one.current.empty()) cell.current = median(one.current);
    if (!change) {
      cell.reason = one.base.empty() || one.current.empty()
                        ? fmt::format("{} has no value in {}", one.metric,
                                      one.base.empty() ? "the baseline" : "the new report")
                        : "one fork per run does not show how forks differ; use --forks 6";
    } else {
      one.scale->describe(cell, change->estimate, change->lower, change->upper);
      cell.confidence = change->confidence;
      cell.detectable = std::expm1(change->detectable);
      by_interval(cell, *change);
    }
    if (!one.doubt.empty()) {
      cell.verdict = Verdict::inconclusive;
      cell.forks_needed.reset();
      cell.baselines_needed.reset();
      cell.reason = one.doubt;
    }
    return cell;
  }

  void by_interval(CellVerdict& cell, const CellChange& change) const {
    cell.verdict = verdict_of(change, std::log1p(settings_.threshold), std::log1p(result_.detect));
    if (cell.verdict != Verdict::inconclusive) return;
    if (!cell.reason.empty()) cell.reason += "; ";
    cell.reason += why_undecided(cell, change);
  }

  std::string why_undecided(CellVerdict& cell, const CellChange& change) const {
    if (change.uneven)
      return "its baselines differ from each other by far more than those of the other cells: one of them has "
             "other code, or was disturbed; leave out those from before the change";
    const bool shown = shows_change(change, std::log1p(settings_.threshold));
    if (shown && !is_in_own_time(change))
      return fmt::format(
          "its own time changed by {:.2g} %, which is less than half of its change relative to the shift of "
          "all cells; measure again, or use `assay ab`",
          100 * std::expm1(change.with_shift));
    if (shown && is_beyond_baselines(change))
      return "its fastest forks changed by less than half as much: the machine changed in mid-run, or only some processes "
             "are affected; measure again, or use `assay ab`";
    if (shown || std::expm1(change.worst_pair) >= result_.detect)
      return fmt::format(
          "its baselines differ from each other by up to {:.2g} %, so less than that shows nothing; "
          "leave out the odd one, or use `assay ab`",
          100 * std::expm1(change.worst_pair));
    return fmt::format("only a change of {:.2g} % would have been found with {:.0f} %; {}",
                       100 * std::expm1(change.detectable), 100 * detection_power, remedy(cell, change));
  }

  // What would find a change of `detect`: more baselines, then more forks.
  std::string remedy(CellVerdict& cell, const CellChange& change) const {
    constexpr int enough_baselines = 5, most_forks = 64;
    const auto finds = [&](int baselines, int forks) {
      return change.spread.detectable(baselines, forks, std::log1p(settings_.threshold), change.confidence) <=
             std::log1p(result_.detect);
    };
    const int baselines = std::max(enough_baselines, change.baselines);
    for (int forks = change.forks; forks <= most_forks; forks = forks < 6 ? 6 : forks * 3 / 2) {
      if (!finds(baselines, forks)) continue;
      if (baselines > change.baselines) cell.baselines_needed = baselines;
      if (forks > change.forks) cell.forks_needed = forks;
      const std::string more_forks = forks > change.forks ? fmt::format(" with --forks {}", forks) : "";
      if (baselines > change.baselines)
        return fmt::format("compare with {} baselines{}", baselines, more_forks);
      return fmt::format("measure{}", more_forks);
    }
    return "more forks or baselines would not do on this machine: use `assay ab`";
  }

  void note_moved() {
    Moved base, current;
    const auto add = [&](Moved& side, const CellReport& cell) {
      const Moved forks = moved_forks(cell);
      side.moved += forks.moved;
      side.counted += forks.counted;
    };
    for (const auto& [id, one] : candidates_) {
      add(current, *one.entry->current);
      for (const std::size_t i : one.used) add(base, *one.entry->base[i]);
    }
    if (base.moved + current.moved > 0)
      result_.notes.push_back(fmt::format(
          "left out {} of {} forks of the baselines and {} of {} of the new report: before or after the run the host "
          "had their processors on one core, or far apart",
          base.moved, base.counted, current.moved, current.counted));
  }

  void note_other_networks() {
    if (bases_.empty()) return;
    if (const auto change = changed_network(workloads_of(bases_.back()->cells), workloads_of(current_.cells)))
      result_.notes.push_back(
          fmt::format("{}, so they are two networks, whose cells are not compared", to_string(*change)));
  }

  void note_left_out() {
    if (cells_with_fewer_ == 0) return;
    result_.notes.push_back(fmt::format("{} left out baselines that were measured in another way: {}",
                                        plural(cells_with_fewer_, "cell"), left_out_));
  }

  const CompareSettings& settings_;
  BreakageSettings breakage_ = settings_.breakage;
  const Report& current_;
  std::vector<const Report*> bases_;
  std::map<std::string, Candidate> candidates_;
  std::map<std::string, std::optional<CellChange>> changes_;
  UsualPlacement usual_;
  std::string left_out_;
  int cells_with_fewer_ = 0;
  Comparison result_;
};

}  // namespace

Comparison compare(const std::vector<const Report*>& bases, const Report& current,
                   const CompareSettings& settings) {
  require_metric(settings.metric);
  if (settings.detect > 0 && settings.detect <= settings.threshold)
    throw ConfigError(fmt::format(
        "[compare] --detect {:.3g}% is not above --threshold {:.3g}%: a change that equals the threshold is found half "
        "of the time, whatever is measured; use a larger --detect",
        100 * settings.detect, 100 * settings.threshold));
  return Comparing(bases, current, settings).run();
}

Comparison compare(const Report& base, const Report& current, const CompareSettings& settings) {
  return compare({&base}, current, settings);
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

bool Comparison::shifted() const {
  return shift && shift->ratio >= 1 + threshold && !overlooked.contains(Overlooked::shift);
}

namespace {

// "; a change of 8.1 % in one cell would have been found with 80 %"
std::string detection(const Comparison& comparison) {
  double detectable = 0;
  for (const CellVerdict& cell : comparison.cells)
    if (cell.verdict == Verdict::same) detectable = std::max(detectable, cell.detectable.value_or(0));
  if (comparison.detect == 0 || detectable == 0) return "";
  return fmt::format(
      "; where it is the same, a change of {:.2g} % in one cell would have been found with {:.0f} %",
      100 * detectable, 100 * detection_power);
}

}  // namespace

std::string summary_line(const Comparison& comparison) {
  std::string counts;
  for (const Verdict verdict : verdicts) {
    if (const int count = comparison.count(verdict))
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, to_string(verdict));
  }
  return fmt::format(
      "{} of {}{}; threshold {:.3g} %, all intervals hold at once with {:.3g} % ({:.5g} % each)", counts,
      plural(comparison.cells.size(), "cell"), detection(comparison), 100 * comparison.threshold,
      100 * comparison.confidence, 100 * comparison.cell_confidence);
}

}  // namespace assay

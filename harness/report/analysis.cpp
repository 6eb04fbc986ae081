#include "harness/report/analysis.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "harness/core/statistics.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/ranking.hpp"

namespace assay {
namespace {

std::optional<double> value_of(const CellReport& cell, std::string_view metric) {
  const auto found = cell.metrics.find(metric);
  return found == cell.metrics.end() ? std::nullopt : found->second.value;
}

// ---- one cell

AnalyzedFork analyze_fork(const Fork& fork, const std::vector<const Fork*>& counted) {
  AnalyzedFork out{.fork = &fork,
                   .clean = counts(fork),
                   .counted = std::find(counted.begin(), counted.end(), &fork) != counted.end(),
                   .time = fork_time(fork)};
  for (const Block* block : timed_blocks(fork))
    if (block->epoch > 0) out.epochs[block->epoch] += block_seconds(*block);
  if (!out.epochs.empty()) out.training_seconds = out.seconds_until(out.epochs.rbegin()->first);
  for (const Evaluation& evaluation : fork.evaluations)
    if (std::isfinite(evaluation.accuracy))
      out.accuracy[std::string(to_string(evaluation.split))] = evaluation.accuracy;
  return out;
}

void add_spread(AnalyzedCell& cell) {
  std::vector<double> times;
  for (const AnalyzedFork& fork : cell.forks)
    if (fork.counted && fork.time) times.push_back(fork.time->step_seconds);
  if (times.empty()) return;
  const double middle = median(times);
  const auto [fastest, slowest] = std::minmax_element(times.begin(), times.end());
  cell.spread = (*slowest - *fastest) / middle;
  for (AnalyzedFork& fork : cell.forks) {
    if (fork.fork->status != Status::ok || !fork.time) continue;
    std::vector<double> blocks;
    for (const Block* block : steady_blocks(*fork.fork))
      blocks.push_back(block_seconds(*block) / static_cast<double>(block->steps));
    fork.off = fork.time->step_seconds / middle - 1;
    fork.off_low = quantile(blocks, 0.1) / middle - 1;
    fork.off_high = quantile(blocks, 0.9) / middle - 1;
  }
}

CurvePoint point_of(int epoch, const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {epoch, median(values), *low, *high, static_cast<int>(values.size())};
}

void add_curves(AnalyzedCell& cell) {
  std::map<int, std::vector<double>> losses, times;
  std::size_t ok = 0;
  for (const AnalyzedFork& fork : cell.forks) {
    if (fork.counted)
      for (const auto& [epoch, seconds] : fork.epochs) times[epoch].push_back(seconds);
    if (fork.fork->status != Status::ok) continue;
    ++ok;
    for (const Evaluation& evaluation : fork.fork->evaluations)
      if (evaluation.split == DataSplit::train && evaluation.epoch > 0 && std::isfinite(evaluation.loss))
        losses[evaluation.epoch].push_back(evaluation.loss);
  }
  for (const auto& [epoch, values] : losses)
    if (values.size() == ok) cell.train_loss.push_back(point_of(epoch, values));
  for (const auto& [epoch, values] : times) cell.epoch_time.push_back(point_of(epoch, values));
}

AnalyzedCell analyze_cell(const CellReport& cell, std::size_t report) {
  AnalyzedCell out{.cell = &cell,
                   .report = report,
                   .series = short_name(cell),
                   .clean = is_clean(cell),
                   .time = ranked_time(cell)};
  const std::vector<const Fork*> counted = counted_forks(cell);
  for (const Fork& fork : cell.forks) out.forks.push_back(analyze_fork(fork, counted));
  add_spread(out);
  add_curves(out);
  out.operators = op_times(cell);
  const auto first = value_of(cell, "first_epoch_time"), later = value_of(cell, "epoch_time");
  if (first && later && *later != 0) out.first_epoch_ratio = *first / *later;
  const Work& work = cell.work;
  if (work.bytes > 0 && work.copy_bandwidth > 0) out.memory_limit = work.bytes / work.copy_bandwidth;
  if (work.flops > 0 && work.peak_flops > 0) out.arithmetic_limit = work.flops / work.peak_flops;
  for (const Fork& fork : cell.forks)
    if (fork.status == Status::ok && !out.timeline) out.timeline = timeline(fork);
  return out;
}

// ---- groups

// The first in order of a bare library, else of all.
std::optional<std::size_t> baseline(const Analysis& all, const AnalyzedGroup& group, std::size_t report) {
  for (const bool bare : {true, false})
    for (const std::size_t i : group.in_rank) {
      const AnalyzedCell& cell = all.cells[i];
      if (cell.report == report && cell.time && (!bare || cell.cell->kind == BackendKind::bare)) return i;
    }
  return std::nullopt;
}

// For cells without a common round: the ratio of their medians, without an interval.
std::optional<PairedRatio> ratio_of(const AnalyzedCell& cell, const AnalyzedCell& other) {
  if (!cell.time || !other.time) return std::nullopt;
  if (cell.report == other.report)
    if (const auto paired = time_ratio(*cell.cell, *other.cell)) return paired;
  const double value = *cell.time / *other.time;
  return PairedRatio{.value = value, .least = value, .greatest = value};
}

// Cells of several reports or machines have no order: their times are only sorted.
void sort_by_time(const Analysis& all, AnalyzedGroup& group) {
  const auto key = [&](std::size_t i) {
    const AnalyzedCell& cell = all.cells[i];
    if (cell.time) return std::pair(0, *cell.time);
    if (const auto step = value_of(*cell.cell, "step_time")) return std::pair(1, *step);
    return std::pair(2, 0.0);
  };
  group.in_rank = group.cells;
  std::ranges::stable_sort(group.in_rank, {}, key);
}

bool is_of_one_run(const Analysis& all, const std::vector<std::size_t>& cells) {
  const AnalyzedCell& first = all.cells[cells.front()];
  return std::ranges::all_of(cells, [&](std::size_t i) {
    const AnalyzedCell& cell = all.cells[i];
    return cell.report == first.report && cell.cell->environment == first.cell->environment;
  });
}

void rank_cells(Analysis& all, AnalyzedGroup& group) {
  sort_by_time(all, group);
  std::vector<std::size_t> timed;
  std::vector<const CellReport*> cells;
  for (const std::size_t i : group.in_rank)
    if (all.cells[i].time) timed.push_back(i), cells.push_back(all.cells[i].cell);
  if (timed.empty() || !is_of_one_run(all, timed)) return;
  const Ranking ranking = rank_by_pairs(cells);
  std::vector<std::size_t> ranked, others;
  for (const std::size_t at : ranking.order) {
    AnalyzedCell& cell = all.cells[timed[at]];
    if (const auto& places = ranking.places[at]) {
      cell.rank = places->first;
      cell.last_rank = places->last;
    }
    (cell.rank ? ranked : others).push_back(timed[at]);
  }
  const std::vector<std::size_t>& neighbors = ranked.size() > 1 ? ranked : others;
  for (std::size_t i = 1; i < neighbors.size(); ++i) {
    const int shared =
        shared_rounds(all.report_cell(neighbors[i - 1]), all.report_cell(neighbors[i])).counting;
    group.rounds = i == 1 ? shared : std::min(group.rounds, shared);
  }
  ranked.insert(ranked.end(), others.begin(), others.end());
  std::ranges::copy(ranked, group.in_rank.begin());
}

void compare_cells(Analysis& all, AnalyzedGroup& group) {
  for (std::size_t report = 0; report < all.reports.size(); ++report)
    group.baselines.push_back(baseline(all, group, report));
  const AnalyzedCell& first = all.cells[group.in_rank.front()];
  for (const std::size_t i : group.cells) {
    AnalyzedCell& cell = all.cells[i];
    cell.to_fastest = ratio_of(cell, first);
    cell.base = group.baselines[cell.report];
    if (!cell.base) continue;
    const AnalyzedCell& base = all.cells[*cell.base];
    cell.ratio = time_ratio(*cell.cell, *base.cell);
    cell.taxed = cell.ratio && base.cell->kind == BackendKind::bare && is_product(cell.cell->kind);
  }
}

// Items by title, in the order of their first cell.
template <typename Item>
std::size_t place_of(std::vector<Item>& items, std::unordered_map<std::string, std::size_t>& places,
                     const std::string& title) {
  const auto [found, added] = places.try_emplace(title, items.size());
  if (added) {
    items.emplace_back();
    items.back().title = title;
  }
  return found->second;
}

void add_groups(Analysis& all) {
  std::unordered_map<std::string, std::size_t> groups, families;
  for (std::size_t i = 0; i < all.cells.size(); ++i) {
    const Axes& axes = all.cells[i].cell->axes;
    const std::size_t place = place_of(all.groups, groups, group_title(axes));
    AnalyzedGroup& group = all.groups[place];
    if (group.cells.empty()) {
      group.heading = group_heading(axes);
      group.is_op = axes.is_op();
      group.family = place_of(all.families, families, family_title(axes));
      AnalyzedFamily& family = all.families[group.family];
      if (family.groups.empty()) family.heading = family_heading(axes);
      family.is_op = group.is_op;
      family.groups.push_back(place);
    }
    group.cells.push_back(i);
    all.cells[i].group = place;
  }
  for (AnalyzedGroup& group : all.groups) {
    rank_cells(all, group);
    compare_cells(all, group);
  }
}

// Adds the name of its report to each cell of a family with cells of several reports. Otherwise a series has the
// same name, and so the same colour, in the pictures of all reports.
void add_report_names(Analysis& all) {
  for (const AnalyzedFamily& family : all.families) {
    std::vector<std::size_t> cells;
    for (const std::size_t group : family.groups)
      cells.insert(cells.end(), all.groups[group].cells.begin(), all.groups[group].cells.end());
    const auto report_of = [&](std::size_t i) { return all.cells[i].report; };
    if (std::ranges::all_of(cells, [&](std::size_t i) { return report_of(i) == report_of(cells.front()); }))
      continue;
    for (const std::size_t i : cells) all.cells[i].series += " @ " + all.labels[report_of(i)];
  }
}

// ---- families

std::vector<std::size_t> ranked_cells(const Analysis& all, const AnalyzedGroup& group) {
  std::vector<std::size_t> ranked;
  for (const std::size_t i : group.in_rank)
    if (all.cells[i].rank) ranked.push_back(i);
  return ranked;
}

std::optional<Leader> leader_of(const Analysis& all, const AnalyzedFamily& family) {
  std::vector<std::vector<std::size_t>> sizes;
  std::vector<std::pair<std::string, int>> wins;  // in the order of their first win
  for (const std::size_t group : family.groups) {
    const auto ranked = ranked_cells(all, all.groups[group]);
    if (ranked.size() < 2) continue;
    sizes.push_back(ranked);
    if (all.cells[ranked.front()].last_rank != 1) continue;  // a tie is no win
    const std::string& series = all.cells[ranked.front()].series;
    const auto found =
        std::find_if(wins.begin(), wins.end(), [&](const auto& one) { return one.first == series; });
    if (found == wins.end())
      wins.emplace_back(series, 1);
    else
      ++found->second;
  }
  if (wins.empty()) return std::nullopt;
  const auto best = std::max_element(wins.begin(), wins.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  Leader leader{.series = best->first, .wins = best->second, .sizes = static_cast<int>(sizes.size())};
  for (const auto& ranked : sizes) {
    const auto base = std::find_if(ranked.begin(), ranked.end(),
                                   [&](std::size_t i) { return all.cells[i].series == leader.series; });
    if (base == ranked.end()) continue;
    for (const std::size_t i : ranked) {
      if (i == *base) continue;
      const auto ratio = time_ratio(all.report_cell(i), all.report_cell(*base));
      if (!ratio) continue;
      leader.sure = leader.sure && ratio->lower;
      const std::string& series = all.cells[i].series;
      const auto known = std::find_if(leader.followers.begin(), leader.followers.end(),
                                      [&](const Follower& one) { return one.series == series; });
      if (known == leader.followers.end()) {
        leader.followers.push_back({series, ratio->value, ratio->value});
      } else {
        known->low = std::min(known->low, ratio->value);
        known->high = std::max(known->high, ratio->value);
      }
    }
  }
  std::stable_sort(leader.followers.begin(), leader.followers.end(),
                   [](const Follower& a, const Follower& b) { return a.low < b.low; });
  return leader;
}

// The only number of an op's size, such as 4096 or m512; the batch of a network.
std::optional<double> only_size(const Axes& axes) {
  if (!axes.is_op()) return static_cast<double>(axes.batch);
  constexpr std::size_t max_digits = 15;
  std::string_view digits = axes.size;
  while (!digits.empty() && digits.front() >= 'a' && digits.front() <= 'z') digits.remove_prefix(1);
  if (digits.empty() || digits.size() > max_digits ||
      digits.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  return std::stod(std::string(digits));
}

std::vector<SeriesGrowth> growth_of(const Analysis& all, const AnalyzedFamily& family) {
  std::vector<std::pair<std::string, std::vector<SizedCell>>> series;
  for (const std::size_t group : family.groups)
    for (const std::size_t i : all.groups[group].cells) {
      const AnalyzedCell& cell = all.cells[i];
      const std::optional<double> size = only_size(cell.cell->axes);
      if (!size) continue;
      auto found = std::ranges::find(series, cell.series, [](const auto& one) { return one.first; });
      if (found == series.end()) found = series.emplace(series.end(), cell.series, std::vector<SizedCell>{});
      found->second.push_back({*size, cell.cell});
    }
  std::vector<SeriesGrowth> out;
  for (const auto& [name, cells] : series)
    if (const auto growth = growth_over(cells)) out.push_back({*growth, name});
  return out;
}

// ---- published values

bool is_of_a_step(std::string_view metric) { return metric == "step_time" || metric == "samples_per_second"; }

std::optional<PairedRatio> measured_ratio(const AnalyzedCell& cell, std::string_view metric,
                                          const AnalyzedCell& other, std::string_view other_metric) {
  const auto a = value_of(*cell.cell, metric), b = value_of(*other.cell, other_metric);
  if (!a || !b || *b == 0) return std::nullopt;
  if (cell.report == other.report)
    if (const auto paired = metric_ratio(*cell.cell, metric, *other.cell, other_metric)) return paired;
  return PairedRatio{.value = *a / *b, .least = *a / *b, .greatest = *a / *b};
}

std::optional<double> published_rate(const Analysis& all, const AnalyzedCell& cell,
                                     const AnalyzedPublished& entry) {
  const Published& published = *entry.published;
  if (!published.value || *published.value <= 0 || !is_of_a_step(published.metric)) return std::nullopt;
  const bool is_rate = published.metric == "samples_per_second";
  const double batch = static_cast<double>(cell.cell->axes.batch);
  if (!published.to) return is_rate ? *published.value : batch / *published.value;
  if (!entry.other) return std::nullopt;
  const CellReport& other = all.report_cell(*entry.other);
  const auto rate = value_of(other, "samples_per_second");
  if (!rate || other.axes.batch <= 0) return std::nullopt;
  if (is_rate) return *rate * *published.value;
  return *rate / *published.value * batch / static_cast<double>(other.axes.batch);
}

void add_published(Analysis& all) {
  std::map<std::pair<std::size_t, std::string_view>, std::size_t> by_id;
  for (std::size_t i = 0; i < all.cells.size(); ++i)
    by_id.try_emplace({all.cells[i].report, all.cells[i].cell->id}, i);
  for (AnalyzedCell& cell : all.cells) {
    for (const Published& published : cell.cell->published) {
      AnalyzedPublished entry{.published = &published};
      const auto metric = cell.cell->metrics.find(published.metric);
      if (metric != cell.cell->metrics.end()) entry.hint = metric->second.hint;
      if (published.to) {
        entry.hint = Hint::ratio;
        const auto found = by_id.find({cell.report, *published.to});
        if (found != by_id.end()) {
          entry.other = found->second;
          entry.measured = measured_ratio(cell, published.metric, all.cells[found->second], published.metric);
        }
      }
      entry.samples_per_second = published_rate(all, cell, entry);
      cell.published.push_back(entry);
    }
  }
}

// ---- memory plans

void add_plans(Analysis& all) {
  using Program = std::tuple<std::string, Task, PrecisionKind, std::int64_t, std::string>;
  const auto program_of = [](const Axes& axes) {
    return Program{axes.workload, axes.task, axes.precision, axes.batch, axes.optimizer};
  };
  std::map<Program, std::int64_t> persistent;
  for (const AnalyzedCell& cell : all.cells)
    for (const Fork& fork : cell.cell->forks)
      if (const auto found = fork.memory.find("persistent"); found != fork.memory.end()) {
        const auto [entry, added] = persistent.try_emplace(program_of(cell.cell->axes), found->second);
        if (!added) entry->second = std::min(entry->second, found->second);
      }
  std::set<Program> seen;
  for (std::size_t i = 0; i < all.cells.size(); ++i) {
    const CellReport& cell = all.report_cell(i);
    const Program program = program_of(cell.axes);
    if (!value_of(cell, "plan_saving") || !seen.insert(program).second) continue;
    const auto found = persistent.find(program);
    all.plans.push_back({i, found == persistent.end() ? 0 : found->second});
  }
}

Analysis analyze_all(std::vector<const Report*> reports, std::span<const std::string> labels) {
  Analysis all{.reports = std::move(reports), .labels = {labels.begin(), labels.end()}};
  all.labels.resize(all.reports.size());
  for (std::size_t report = 0; report < all.reports.size(); ++report)
    for (const CellReport& cell : all.reports[report]->cells) {
      if (cell.reason_code == ReasonCode::other_shard) continue;
      all.cells.push_back(analyze_cell(cell, report));
    }
  add_groups(all);
  add_provisional(all);
  add_report_names(all);
  for (AnalyzedFamily& family : all.families) {
    family.leader = leader_of(all, family);
    family.growth = growth_of(all, family);
  }
  add_published(all);
  add_plans(all);
  add_scaling(all);
  return all;
}

}  // namespace

double AnalyzedFork::seconds_until(int epoch) const {
  double sum = fork->compile_seconds;
  for (const auto& [number, seconds] : epochs)
    if (number <= epoch) sum += seconds;
  return sum;
}

Analysis analyze(std::span<const Report> reports, std::span<const std::string> labels) {
  std::vector<const Report*> pointers;
  for (const Report& report : reports) pointers.push_back(&report);
  return analyze_all(std::move(pointers), labels);
}

Analysis analyze(const Report& report) { return analyze_all({&report}, {}); }

std::optional<PairedRatio> answer_to(const Analysis& all, const Question& question) {
  const AnalyzedCell& cell = all.cells.at(question.cell);
  if (!question.other) return metric_over_rounds(*cell.cell, question.metric);
  return measured_ratio(cell, question.metric, all.cells.at(*question.other),
                        question.other_metric.empty() ? question.metric : question.other_metric);
}

std::string short_name(const CellReport& cell) { return cell.axes.backend + " " + mode_words(cell.axes); }

}  // namespace assay

#include "harness/conductor/print/report_tables.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/print/entries.hpp"
#include "harness/core/text.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/flag_rates.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/time_spent.hpp"

namespace assay {
namespace {

std::string tax_text(const PairedRatio& ratio) {
  const auto percent = [](double value) { return fmt::format("{:+.0f}", 100 * (value - 1)); };
  std::string text = percent(ratio.value) + " %";
  if (ratio.lower && ratio.upper)
    text += fmt::format(" [{}, {}]", percent(*ratio.lower), percent(*ratio.upper));
  return text;
}

// The median of paired ratios and the ratio of two medians are both correct and may differ if rounds scatter.
void add_ratio_note(Table& table, const Analysis& all, const AnalyzedGroup& group) {
  constexpr double max_difference = 0.05;
  for (const std::size_t i : group.in_rank) {
    const AnalyzedCell& cell = all.cells[i];
    if (!cell.ratio || !cell.base || !cell.time || !all.cells[*cell.base].time) continue;
    const double medians = *cell.time / *all.cells[*cell.base].time;
    if (std::abs(medians / cell.ratio->value - 1) <= max_difference) continue;
    table.notes.push_back(
        "A ratio is the median over rounds of the ratios within a round; if rounds scatter, it differs from the ratio "
        "of the displayed steps.");
    return;
  }
}

void add_disturbed_note(Table& table, const Analysis& all, const AnalyzedGroup& group) {
  int forks = 0, disturbed = 0, frozen = 0, stopped = 0, misplaced = 0;
  for (const std::size_t i : group.cells)
    for (const Fork& fork : all.report_cell(i).forks) {
      const auto has = [&](const char* flag) { return contains(fork.flags, flag); };
      ++forks;
      if (has(quality_flag::disturbed) || has(quality_flag::uncovered)) ++disturbed;
      if (has(quality_flag::frozen)) ++frozen;
      if (has(quality_flag::quota)) ++stopped;
      if (has(quality_flag::placement)) ++misplaced;
    }
  std::vector<std::string> said;
  const auto say = [&](int number, std::string_view what) {
    if (number > 0) said.push_back(fmt::format("during {} of {} forks {}", number, forks, what));
  };
  say(disturbed, "other processes used the processors");
  say(misplaced, "the host had the processors on one core, or further apart than at other times");
  say(frozen, "the program stood still");
  say(stopped, "the CPU quota of the control group stopped the threads of the worker (use fewer --threads)");
  if (said.empty()) return;
  said.front().front() = 'D';
  table.notes.push_back(fmt::format(
      "{}. These forks do not count, nor do their rounds for a ratio to their cell.", fmt::join(said, "; ")));
}

// Whether its forks have the flag more often than those of all backends together.
bool is_more(const std::vector<FlagRate>& rates, const FlagRate& rate) {
  double forks = 0, flagged = 0;
  for (const FlagRate& one : rates) {
    if (one.flag != rate.flag) continue;
    forks += one.forks;
    flagged += one.flagged;
  }
  return rate.flagged * forks > flagged * rate.forks;
}

// "Flags of forks by backend: disturbed onednn 1 of 12, torch 0 of 12; ..."; and those that depend on the backend.
void add_flag_rates(Table& table, const Report& report) {
  const std::vector<FlagRate> rates = flag_rates(report);
  if (rates.empty()) return;
  std::string all;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const FlagRate& rate = rates[i];
    const bool first = i == 0 || rates[i - 1].flag != rate.flag;
    all += fmt::format("{}{}{} {} of {}",
                       i == 0  ? ""
                       : first ? "; "
                               : ", ",
                       first ? rate.flag + ": " : "", rate.backend, rate.flagged, rate.forks);
  }
  const bool differ = std::ranges::any_of(rates, &FlagRate::differs);
  table.notes.push_back(fmt::format("Flags of forks by backend: {}.{}", all,
                                    differ ? "" : " No backend has one more often than chance explains."));
  for (const FlagRate& rate : rates)
    if (rate.differs)
      table.notes.push_back(fmt::format(
          "warning: forks of {} have the flag {} {} often than the others of their rounds (p = {:.1g}): its numbers and "
          "ratios may depend on which forks count.",
          rate.backend, rate.flag, is_more(rates, rate) ? "more" : "less", *rate.p));
}

// "Of 3 min 20 s, timed blocks took 40 %, compiling 30 % and the rest 30 %."
std::string time_spent_text(const Report& report) {
  constexpr std::size_t max_named = 5;
  const std::vector<TimeShare> shares = time_spent(report);
  double sum = 0, named = 0;
  for (const TimeShare& share : shares) sum += share.seconds;
  if (sum < 1) return "";
  std::vector<std::string> words;
  for (const TimeShare& share : shares) {
    if (words.size() == max_named || share.seconds < 0.01 * sum) break;
    words.push_back(fmt::format("{} {:.0f} %", share.name, 100 * share.seconds / sum));
    named += share.seconds;
  }
  if (sum - named >= 0.01 * sum) words.push_back(fmt::format("the rest {:.0f} %", 100 * (1 - named / sum)));
  return fmt::format("Where {} went: {}.", duration_text(sum), fmt::join(words, ", "));
}

// "torch: compile channels_last was chosen for lenet5 train fp32 b32 in a search of 9 forks; eager native takes 1.41
// [1.32, 1.51] times as long". A ratio that an interval does not show is called that. Reports of older versions have one
// unchecked fork of each.
std::string best_text(const BestRecord& best) {
  const auto name = [&](const TriedRecord& tried) {
    const bool layouts = std::any_of(best.tried.begin(), best.tried.end(), [&](const TriedRecord& other) {
      return other.layout != best.tried.front().layout;
    });
    return tried.mode + (layouts ? " " + tried.layout : "");
  };
  const TriedRecord& first = best.tried.front();
  if (!first.step_time)
    return fmt::format("{}: none of {} (modes and layouts) could be tried for {}", best.backend,
                       plural(best.tried.size(), "candidate"), best.work);
  std::vector<std::string> others;
  for (std::size_t i = 1; i < best.tried.size(); ++i) {
    const TriedRecord& tried = best.tried[i];
    if (!tried.step_time) {
      if (!tried.reason.empty())
        others.push_back(fmt::format("{} was left out: {}", name(tried), one_line(tried.reason, 100)));
      continue;
    }
    const std::string ratio = format_significant(tried.ratio.value_or(*tried.step_time / *first.step_time));
    others.push_back(
        !tried.lower || !tried.upper
            ? fmt::format("{} took about {} times as long, but too few rounds count for an interval",
                          name(tried), ratio)
            : fmt::format("{} takes {} [{}, {}] times as long{}", name(tried), ratio,
                          format_significant(*tried.lower), format_significant(*tried.upper),
                          *tried.lower <= 1 && *tried.upper >= 1 ? " (no clear difference)" : ""));
  }
  const std::int64_t forks = std::max<std::int64_t>(1, first.forks);
  return fmt::format("{}: {} was chosen for {} in a search of {}{}{}", best.backend, name(first), best.work,
                     plural(forks, "fork"), others.empty() ? "" : "; ", fmt::join(others, ", "));
}

// The trials of --mode best, one sentence for each backend and work.
std::vector<std::string> best_texts(const RunRecord& run) {
  std::vector<std::string> texts;
  for (const BestRecord& best : run.best)
    if (!best.tried.empty()) texts.push_back(best_text(best) + ".");
  return texts;
}

// The variables that the workers had by --environment, those of the caller that they had, too, and those that they did not
// get. The choice of a GPU shows in the row.
std::vector<std::string> variable_texts(const RunRecord& run) {
  const auto settings = run.settings.environment.value_or(std::map<std::string, std::string>());
  std::vector<std::string> named;
  for (const auto& [name, value] : settings) named.push_back(one_line(name + "=" + value, 200));
  std::set<std::string> dropped, passed;
  for (const SessionRecord& session : run.sessions) {
    for (const std::string& name : session.dropped) dropped.insert(one_line(name, 100));
    for (const auto& [name, value] : session.variables)
      if (!settings.contains(name) && name.starts_with("LD_"))
        passed.insert(one_line(name + "=" + value, 200));
  }
  std::vector<std::string> texts;
  if (!named.empty()) texts.push_back(fmt::format("Workers had {} (--environment).", fmt::join(named, ", ")));
  if (!passed.empty())
    texts.push_back(
        fmt::format("Workers looked for their libraries by the caller's {}: other libraries of the same "
                    "name may have been measured.",
                    fmt::join(passed, ", ")));
  if (!dropped.empty())
    texts.push_back(
        fmt::format("Not passed to workers: {}; to pass a variable, name it: --environment NAME=VALUE",
                    fmt::join(dropped, ", ")));
  return texts;
}

// "3.2.0 (40112196287e)" -> "3.2.0"; empty for an id of a build, which has no order.
std::string release_of(const protocol::Library& library) {
  return library.version.starts_with("build-id") ? "" : library.version.substr(0, library.version.find(' '));
}

// By library and by its releases in a cell, usually one: the backends of these cells.
using Releases = std::map<std::string, std::map<std::set<std::string>, std::set<std::string>>>;

Releases releases_of(const Analysis& all, const AnalyzedGroup& group) {
  Releases found;
  for (const std::size_t i : group.cells) {
    const CellReport& cell = all.report_cell(i);
    if (cell.status != Status::ok) continue;
    std::map<std::string, std::set<std::string>> of_cell;
    for (const protocol::Library& library : cell.libraries)
      if (const std::string release = release_of(library); !library.under_test && !release.empty())
        of_cell[library.name].insert(release);
    for (const auto& [name, releases] : of_cell) found[name][releases].insert(cell.axes.backend);
  }
  return found;
}

// Libraries that rows of one table ran in different releases: then they differ by more than their frameworks.
std::vector<std::string> library_texts(const Analysis& all) {
  Releases differing;
  for (const AnalyzedGroup& group : all.groups)
    for (const auto& [name, cells] : releases_of(all, group))
      for (const auto& [releases, backends] : cells)
        if (cells.size() > 1) differing[name][releases].insert(backends.begin(), backends.end());
  std::vector<std::string> texts;
  for (const auto& [name, cells] : differing) {
    std::vector<std::string> parts;
    for (const auto& [releases, backends] : cells)
      parts.push_back(
          one_line(fmt::format("{} ({})", fmt::join(releases, " and "), fmt::join(backends, ", ")), 200));
    texts.push_back(fmt::format("Rows differ in {}, too: {}.", one_line(name, 60), fmt::join(parts, ", ")));
  }
  return texts;
}

// "This is shard 2 of 4: …"; empty for a whole run.
std::string other_shards_text(const Report& report) {
  if (!report.run.shard) return {};
  const auto others = std::count_if(report.cells.begin(), report.cells.end(), [](const CellReport& cell) {
    return cell.reason_code == ReasonCode::other_shard;
  });
  return fmt::format(
      "This is shard {} of {}, and other shards have {} of its {}; join the reports with: assay merge",
      report.run.shard->index, report.run.shard->count, others, plural(report.cells.size(), "cell"));
}

// The columns of a section, in the order of the metric table.
std::vector<const MetricRow*> section_metrics(Section section) {
  std::vector<const MetricRow*> rows;
  for (const MetricRow& row : metric_table())
    if (row.section == section) rows.push_back(&row);
  return rows;
}

void add_columns(Table& table, const std::vector<const MetricRow*>& metrics) {
  for (const MetricRow* metric : metrics)
    table.columns.push_back({std::string(metric->heading), Align::right});
}

// "2-3" if it may have several places.
std::string rank_text(const AnalyzedCell& cell) {
  if (!cell.rank) return "";
  return cell.tied() ? fmt::format("{}-{}", *cell.rank, *cell.last_rank) : std::to_string(*cell.rank);
}

// The number of forks; "5 of 6" if some do not count.
std::string forks_text(const CellReport& cell) {
  const auto n = static_cast<std::size_t>(std::count_if(cell.forks.begin(), cell.forks.end(), counts));
  return n == cell.forks.size() ? std::to_string(n) : fmt::format("{} of {}", n, cell.forks.size());
}

// The heading of the ratios, and a ratio in it. Without a ranked cell they are provisional.
std::string ratio_heading(const Analysis& all, const AnalyzedGroup& group) {
  if (const auto base = group.baselines.front())
    return group.cells.size() > 1 ? "vs " + short_name(all.report_cell(*base)) : "ratio";
  if (!group.provisional) return "ratio";
  const std::optional<int> threads = group.provisional->threads;
  return fmt::format("provisional{} vs {}", threads ? fmt::format(" t{}", *threads) : "",
                     short_name(all.report_cell(group.provisional->rows.front().cell)));
}
std::string ratio_entry(const Analysis& all, const AnalyzedGroup& group, std::size_t cell) {
  if (group.cells.size() < 2) return "";
  if (const auto& ratio = all.cells[cell].ratio) return ratio_text(*ratio);
  if (!group.provisional || group.baselines.front()) return "-";
  const std::vector<ProvisionalRow>& rows = group.provisional->rows;
  const auto row = std::ranges::find(rows, cell, &ProvisionalRow::cell);
  if (row == rows.end()) return "-";
  // The column `step` is of forks with all threads.
  const std::string step =
      group.provisional->threads ? format_value(row->time, Hint::duration, "s") + ", " : std::string();
  return step + ratio_text(row->to_first);
}

Table times(const Analysis& all, const AnalyzedGroup& group) {
  const std::vector<const MetricRow*> metrics = section_metrics(Section::times);
  Table table{.title = group.title, .columns = {}, .rows = {}, .notes = {}};
  table.columns = {{"#", Align::right}, {"backend"}, {"mode"}};
  add_columns(table, metrics);
  table.columns.push_back({ratio_heading(all, group), Align::right});
  table.columns.insert(
      table.columns.end(),
      {{"tax", Align::right}, {"equivalence"}, {"n", Align::right}, {"spread", Align::right}, {"status"}});
  for (const std::size_t i : group.in_rank) {
    const AnalyzedCell& analyzed = all.cells[i];
    const CellReport& cell = *analyzed.cell;
    std::vector<Entry> row{{rank_text(analyzed)}, {cell.axes.backend}, {mode_words(cell.axes)}};
    for (const MetricRow* metric : metrics) row.push_back(metric_entry(cell, *metric));
    row.push_back({ratio_entry(all, group, i)});
    row.push_back({analyzed.taxed ? tax_text(*analyzed.ratio) : "-"});
    row.push_back(equivalence_entry(cell));
    row.push_back({forks_text(cell)});
    row.push_back({analyzed.spread ? fmt::format("{:.0f} %", 100 * *analyzed.spread) : "-"});
    row.push_back(status_entry(cell));
    table.rows.push_back(std::move(row));
  }
  add_ratio_note(table, all, group);
  add_disturbed_note(table, all, group);
  add_status_notes(table, all, group);
  add_warning_notes(table, all, group);
  if (std::string answer = answer_of(all, group); !answer.empty()) table.notes.push_back(std::move(answer));
  if (std::string machine = environment_note(all, group); !machine.empty())
    table.notes.push_back(std::move(machine));
  return without_empty_columns(std::move(table));
}

// A table with one column for every other metric that has a value in the group (one row per metric would be
// unreadable). A metric that is not in the table of metrics has its name as the title.
Table others(const Analysis& all, const AnalyzedGroup& group) {
  Table table{.title = {}, .columns = {{"backend"}, {"mode"}}, .rows = {}, .notes = {}};
  std::vector<std::string> shown;
  for (const MetricRow* metric : section_metrics(Section::others)) shown.emplace_back(metric->name);
  add_columns(table, section_metrics(Section::others));
  for (const std::size_t i : group.in_rank)
    for (const auto& [name, metric] : all.report_cell(i).metrics) {
      const MetricRow* row = find_metric(name);
      const bool elsewhere = row ? row->section != Section::only_ops : is_planned(name);
      if (elsewhere || std::find(shown.begin(), shown.end(), name) != shown.end()) continue;
      shown.push_back(name);
      table.columns.push_back({name, Align::right});
    }
  for (const std::size_t i : group.in_rank) {
    const CellReport& cell = all.report_cell(i);
    if (std::none_of(cell.metrics.begin(), cell.metrics.end(),
                     [](const auto& m) { return m.second.value && !is_planned(m.first); }))
      continue;
    std::vector<Entry> row{{cell.axes.backend}, {mode_words(cell.axes)}};
    // Intervals would make the row too wide, and `--format csv` has them; but an accuracy says little without.
    for (const std::string& name : shown) {
      const Entry entry = metric_entry(cell, name);
      row.push_back(is_accuracy(name) ? entry : without_interval(entry));
    }
    table.rows.push_back(row);
  }
  return without_empty_columns(std::move(table));
}

// One row per program, because the plan depends only on the graph.
Table memory_plans(const Analysis& all) {
  Table table{.title = "Memory plans: the arena of a step, unfused and with plain layouts",
              .columns = {{"workload"}, {"task"}, {"precision"}, {"batch", Align::right}},
              .rows = {},
              .notes = {}};
  const std::vector<const MetricRow*> metrics = section_metrics(Section::memory_plans);
  add_columns(table, metrics);
  for (const AnalyzedPlan& plan : all.plans) {
    const CellReport& cell = all.report_cell(plan.cell);
    const Axes& axes = cell.axes;
    std::vector<Entry> row{
        {axes.workload}, {axes.text("task")}, {axes.text("precision")}, {std::to_string(axes.batch)}};
    for (const MetricRow* metric : metrics) row.push_back(metric_entry(cell, *metric));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Whether anything of the group was executed, or should have been.
bool was_run(const Analysis& all, const AnalyzedGroup& group) {
  return std::any_of(group.cells.begin(), group.cells.end(), [&](std::size_t i) {
    const CellReport& cell = all.report_cell(i);
    return cell.status != Status::ok || !cell.forks.empty() || cell.equivalence.checked;
  });
}

bool has_interval(const Table& table) {
  return std::ranges::any_of(table.rows, [](const std::vector<Entry>& row) {
    return std::ranges::any_of(row,
                               [](const Entry& entry) { return entry.text.find(" [") != std::string::npos; });
  });
}

}  // namespace

std::vector<Table> summary(const Report& report) {
  std::vector<Table> tables;
  if (is_quick(report)) {
    tables.push_back({.title =
                          "QUICK: a short test that everything works, not a measurement and not the protocol "
                          "of the config; published results are not shown.",
                      .columns = {},
                      .rows = {},
                      .notes = {}});
  }
  const Analysis all = analyze(report);
  for (const AnalyzedGroup& group : all.groups) {
    if (group.is_op || !was_run(all, group)) continue;
    tables.push_back(times(all, group));
    if (Table table = others(all, group); table.columns.size() > 2) tables.push_back(std::move(table));
    if (Table table = loss_curves(all, group); !table.rows.empty()) tables.push_back(std::move(table));
  }
  for (const AnalyzedFamily& family : all.families)
    if (Table table = growth_table(family); !family.is_op && !table.rows.empty())
      tables.push_back(std::move(table));
  // The plans of a run that timed something are in `assay inspect`; here they would only make the answer longer.
  if (std::ranges::none_of(all.groups, [&](const AnalyzedGroup& group) { return was_run(all, group); }))
    if (Table table = memory_plans(all); !table.rows.empty()) tables.push_back(std::move(table));
  for (Table& table : op_tables(all)) tables.push_back(std::move(table));
  if (Table table = scaling_table(all); !table.rows.empty()) tables.push_back(std::move(table));
  if (Table table = hosts_table(all); !table.rows.empty()) tables.push_back(std::move(table));
  if (Table table = published_table(all); !table.rows.empty()) tables.push_back(std::move(table));
  // Once, where the first ones are.
  if (const auto first = std::ranges::find_if(tables, has_interval); first != tables.end())
    first->notes.insert(
        first->notes.begin(),
        "Intervals [low, high] hold within this run; another run may be outside them: assay calibrate measures how runs "
        "differ.");
  if (tables.empty()) tables.push_back({.title = "No cells.", .columns = {}, .rows = {}, .notes = {}});
  add_flag_rates(tables.back(), report);
  if (std::string spent = time_spent_text(report); !spent.empty())
    tables.back().notes.push_back(std::move(spent));
  const RunRecord& run = report.run;
  for (std::string& text : library_texts(all)) tables.back().notes.push_back(std::move(text));
  for (std::string& text : variable_texts(run)) tables.back().notes.push_back(std::move(text));
  for (std::string& best : best_texts(run)) tables.back().notes.push_back(std::move(best));
  for (const std::string& left_out : run.left_out)
    tables.back().notes.push_back(one_line(left_out, 300) + ".");
  if (const std::string others = other_shards_text(report); !others.empty())
    tables.back().notes.push_back(others);
  if (!run.complete)
    tables.back().notes.push_back(
        "The run is not complete; measure the missing cells with: assay run --resume REPORT");
  return tables;
}

Table equivalence_table(const CellReport& cell) {
  Table table{.title = fmt::format("{}: {}", cell.id,
                                   !cell.equivalence.checked ? "unchecked"
                                   : cell.equivalence.passed ? "equivalent"
                                                             : "WRONG"),
              .columns = {{"tensor"},
                          {"max error", Align::right},
                          {"bound", Align::right},
                          {"L2 error", Align::right},
                          {"bound", Align::right},
                          {"of bound", Align::right}},
              .rows = {},
              .notes = {}};
  auto tensors = cell.equivalence.tensors;
  const auto badness = [](const TensorVerdict& tensor) {
    return std::isnan(tensor.ratio) ? HUGE_VAL : tensor.ratio;
  };
  std::stable_sort(tensors.begin(), tensors.end(),
                   [&](const auto& a, const auto& b) { return badness(a) > badness(b); });
  for (const TensorVerdict& tensor : tensors) {
    const auto scientific = [](double value) { return Entry{fmt::format("{:.2e}", value)}; };
    table.rows.push_back(
        {{tensor.name},
         scientific(tensor.max_error),
         scientific(tensor.max_bound),
         scientific(tensor.l2_error),
         scientific(tensor.l2_bound),
         {std::isfinite(tensor.ratio) ? fmt::format("{:.1f} %", 100 * tensor.ratio) : "not finite",
          tensor.ratio <= 1 ? Tone::good : Tone::bad}});
  }
  for (const Ties& ties : cell.equivalence.ties) {
    table.notes.push_back(fmt::format("{}: {} of {} elements are within rounding of a tie", ties.op,
                                      ties.tipped, ties.elements));
  }
  if (const auto& settings = cell.equivalence.settings; settings && settings->loosest > 0)
    table.notes.push_back(fmt::format("the exam detects gradient errors above {:.2g} % at worst: {}{}",
                                      100 * settings->loosest, settings->loosest_gradient,
                                      is_loose(cell.equivalence) ? "; equal loosely" : ""));
  if (const std::int64_t unjudged = cell.equivalence.unjudged; unjudged > 0)
    table.notes.push_back(fmt::format(
        "{} after the last steps may be off by their own size, because the network amplifies roundings that far; they were not "
        "judged: use larger images or more samples in a batch",
        plural(unjudged, "further tensor")));
  if (!is_of_timed_program(cell.equivalence))
    table.notes.emplace_back(
        "the masks of the exam were fed to a second program of the network, and the timed program cannot draw the "
        "same masks again; for it only the share that its dropouts keep was judged");
  if (table.rows.empty()) table.columns.clear();
  if (cell.status != Status::ok)
    table.notes.push_back(fmt::format("{}: {}", to_string(cell.status), one_line(cell.reason, 600)));
  else if (!cell.equivalence.reason.empty())
    table.notes.push_back(one_line(cell.equivalence.reason, 600));
  return table;
}

}  // namespace assay

#include "harness/conductor/print/summary.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/print/entries.hpp"
#include "harness/conductor/print/loss_curves.hpp"
#include "harness/conductor/print/op_tables.hpp"
#include "harness/conductor/print/published_table.hpp"
#include "harness/report/comparison.hpp"
#include "harness/report/invariants.hpp"

namespace assay {
namespace {

constexpr int forks_for_an_interval = 6;

std::string tax_text(const PairedRatio& ratio) {
  const auto percent = [](double value) { return fmt::format("{:+.0f}", 100 * (value - 1)); };
  std::string text = percent(ratio.value) + " %";
  if (ratio.lower && ratio.upper)
    text += fmt::format(" [{}, {}]", percent(*ratio.lower), percent(*ratio.upper));
  return text;
}

struct Compared {
  Entry ratio{"-"};
  Entry tax{"-"};
};

// The tax is what a framework costs over a bare library.
Compared compare(const CellReport& cell, const CellReport* base) {
  if (!base) return {};
  const auto ratio = time_ratio(cell, *base);
  if (!ratio) return {};
  Compared out{.ratio = {ratio_text(*ratio)}};
  if (base->kind == "bare" && cell.kind == "framework") out.tax = {tax_text(*ratio)};
  return out;
}

// Ranked rows by time, then those that were timed, then the others as they stand.
std::vector<std::size_t> in_rank(const Report& report, const ComparisonGroup& group) {
  const auto key = [&](std::size_t i) {
    const CellReport& cell = report.cells[i];
    if (const auto time = ranked_time(cell)) return std::pair(0, *time);
    const auto step = cell.metrics.find("step_time");
    if (step != cell.metrics.end() && step->second.value) return std::pair(1, *step->second.value);
    return std::pair(2, 0.0);
  };
  std::vector<std::size_t> order = group.cells;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return order;
}

void add_fork_note(Table& table, const Report& report, const ComparisonGroup& group) {
  int most = 0;
  for (const std::size_t i : group.cells)
    for (const auto& [name, metric] : report.cells[i].metrics)
      if (!is_planned(name)) most = std::max(most, metric.n);
  if (most > 0 && most < forks_for_an_interval)
    table.notes.push_back(
        fmt::format("{} {}: no interval; {} forks (--forks {}) give one at 96.9 % confidence.", most,
                    most == 1 ? "fork" : "forks", forks_for_an_interval, forks_for_an_interval));
}

Table times(const Report& report, const ComparisonGroup& group, const std::vector<std::size_t>& order) {
  const auto base = baseline(report, group);
  const CellReport* base_cell = base ? &report.cells[*base] : nullptr;
  Table table{.title = group.title, .columns = {}, .rows = {}, .notes = {}};
  table.columns = {{"#", Align::right},
                   {"backend"},
                   {"mode"},
                   {"step", Align::right},
                   {"samples/s", Align::right},
                   {"p50", Align::right},
                   {"p90", Align::right},
                   {"p99", Align::right},
                   {"p99.9", Align::right}};
  table.columns.push_back({base_cell ? "vs " + short_name(*base_cell) : "ratio", Align::right});
  table.columns.insert(table.columns.end(),
                       {{"tax", Align::right}, {"equivalence"}, {"forks", Align::right}, {"status"}});
  int rank = 0;
  for (const std::size_t i : order) {
    const CellReport& cell = report.cells[i];
    const bool ranked = ranked_time(cell).has_value();
    const Compared compared = compare(cell, base_cell);
    const auto ok = std::count_if(cell.forks.begin(), cell.forks.end(),
                                  [](const Fork& f) { return f.status == Status::ok; });
    table.rows.push_back(
        {{ranked ? std::to_string(++rank) : ""},
         {cell.axes.backend},
         {cell.axes.layout == "native" ? cell.axes.mode : cell.axes.mode + " " + cell.axes.layout},
         metric_entry(cell, "step_time"),
         metric_entry(cell, "samples_per_second"),
         metric_entry(cell, "latency_p50"),
         metric_entry(cell, "latency_p90"),
         metric_entry(cell, "latency_p99"),
         metric_entry(cell, "latency_p99.9"),
         compared.ratio,
         compared.tax,
         equivalence_entry(cell),
         {fmt::format("{}/{}", ok, cell.forks.size())},
         status_entry(cell)});
  }
  constexpr std::size_t ratio_column = 9;
  if (order.size() == 1) table.columns[ratio_column].title = "ratio";
  if (order.size() == 1) table.rows[0][ratio_column].text.clear();
  add_fork_note(table, report, group);
  add_status_notes(table, report, group);
  add_warning_notes(table, report, group);
  return without_empty_columns(std::move(table));
}

// Every other metric that has a value somewhere in the group, one row a metric would be unreadable: one
// column each.
Table others(const Report& report, const std::vector<std::size_t>& order) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 22> known{
      {{"training_time", "training"},
       {"first_epoch_time", "first epoch"},
       {"epoch_time", "epoch"},
       {"compile_time", "compile"},
       {"train_accuracy", "train acc"},
       {"first_epoch_accuracy", "epoch 1 acc"},
       {"validation_accuracy", "validation acc"},
       {"test_accuracy", "test acc"},
       {"train_loss", "train loss"},
       {"validation_loss", "validation loss"},
       {"test_loss", "test loss"},
       {"flops_per_second", "FLOP/s"},
       {"loader_wait", "loader wait"},
       {"cpu_utilisation", "CPU"},
       {"gpu_utilisation", "GPU"},
       {"gpu_power", "GPU power"},
       {"planned_arena", "arena"},
       {"framework_peak", "framework peak"},
       {"device_peak_memory", "GPU memory"},
       {"device_peak_used", "GPU in use"},
       {"host_peak_rss", "host RSS"},
       {"energy", "energy"}}};
  static const std::set<std::string_view> in_times{"step_time",   "samples_per_second", "latency_p50",
                                                   "latency_p90", "latency_p99",        "latency_p99.9"};
  std::vector<std::pair<std::string, std::string>> shown(known.begin(), known.end());
  for (const std::size_t i : order)
    for (const auto& [name, metric] : report.cells[i].metrics) {
      const auto same = [&name = name](const auto& pair) { return pair.first == name; };
      if (!in_times.contains(name) && !is_planned(name) && std::none_of(shown.begin(), shown.end(), same))
        shown.emplace_back(name, name);
    }
  Table table{.title = {}, .columns = {{"backend"}, {"mode"}}, .rows = {}, .notes = {}};
  for (const auto& [name, title] : shown) table.columns.push_back({title, Align::right});
  for (const std::size_t i : order) {
    const CellReport& cell = report.cells[i];
    if (std::none_of(cell.metrics.begin(), cell.metrics.end(),
                     [](const auto& m) { return m.second.value && !is_planned(m.first); }))
      continue;
    std::vector<Entry> row{{cell.axes.backend}, {cell.axes.mode}};
    for (const auto& [name, title] : shown) {
      // The interval would make the row too wide; `--format csv` has it.
      Entry entry = metric_entry(cell, name);
      entry.text = entry.text.substr(0, entry.text.find(" ["));
      row.push_back(entry);
    }
    table.rows.push_back(row);
  }
  return without_empty_columns(std::move(table));
}

// Of each program once: the plan is of the graph, whatever executes it.
Table memory_plans(const Report& report) {
  Table table{.title = "Memory plans: the arena of a step, unfused and with plain layouts",
              .columns = {{"workload"},
                          {"task"},
                          {"precision"},
                          {"batch", Align::right},
                          {"naive", Align::right},
                          {"in place", Align::right},
                          {"in place + co-share", Align::right},
                          {"saving", Align::right},
                          {"no plan is below", Align::right}},
              .rows = {},
              .notes = {}};
  std::set<std::vector<std::string>> seen;
  for (const CellReport& cell : report.cells) {
    const auto saving = cell.metrics.find("plan_saving");
    if (saving == cell.metrics.end() || !saving->second.value) continue;
    const Axes& axes = cell.axes;
    const std::string batch = std::to_string(axes.batch);
    if (!seen.insert({axes.workload, axes.task, axes.precision, batch, axes.optimizer}).second) continue;
    table.rows.push_back({{axes.workload},
                          {axes.task},
                          {axes.precision},
                          {batch},
                          metric_entry(cell, "plan_naive"),
                          metric_entry(cell, "plan_in_place"),
                          metric_entry(cell, "plan_co_share"),
                          metric_entry(cell, "plan_saving"),
                          metric_entry(cell, "plan_lower_bound")});
  }
  return table;
}

// Whether anything of the group was executed, or should have been.
bool was_run(const Report& report, const ComparisonGroup& group) {
  return std::any_of(group.cells.begin(), group.cells.end(), [&](std::size_t i) {
    const CellReport& cell = report.cells[i];
    return cell.status != Status::ok || !cell.forks.empty() || cell.equivalence.checked;
  });
}

}  // namespace

std::vector<Table> summary(const Report& report) {
  std::vector<Table> tables;
  if (is_quick(report)) {
    tables.push_back({.title = "QUICK: shrunk to see that it works. These are no measurements, and not the "
                               "protocol of the config; what others published is not shown beside them.",
                      .columns = {},
                      .rows = {},
                      .notes = {}});
  }
  for (const ComparisonGroup& group : comparison_groups(report)) {
    if (!was_run(report, group)) continue;
    if (report.cells[group.cells.front()].axes.is_op()) continue;
    const auto order = in_rank(report, group);
    tables.push_back(times(report, group, order));
    if (Table table = others(report, order); table.columns.size() > 2) tables.push_back(std::move(table));
    if (Table table = loss_curves(report, group); !table.rows.empty()) tables.push_back(std::move(table));
  }
  if (Table table = memory_plans(report); !table.rows.empty()) tables.push_back(std::move(table));
  for (Table& table : op_tables(report)) tables.push_back(std::move(table));
  if (Table table = published_table(report); !table.rows.empty()) tables.push_back(std::move(table));
  if (tables.empty()) tables.push_back({.title = "No cells.", .columns = {}, .rows = {}, .notes = {}});
  const auto& run = report.run;
  if (run.contains("complete") && run["complete"] == false)
    tables.back().notes.push_back(
        "The run is not complete: assay run --resume REPORT measures what is missing.");
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
  if (table.rows.empty()) table.columns.clear();
  if (cell.status != Status::ok)
    table.notes.push_back(fmt::format("{}: {}", to_string(cell.status), one_line(cell.reason, 600)));
  else if (!cell.equivalence.reason.empty())
    table.notes.push_back(one_line(cell.equivalence.reason, 600));
  return table;
}

}  // namespace assay

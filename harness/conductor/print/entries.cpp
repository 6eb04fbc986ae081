#include "harness/conductor/print/entries.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

constexpr std::size_t max_warnings = 4;  // kinds of them per cell

std::string flags_text(const std::vector<std::string>& flags) {
  const auto words = [](const std::string& flag) -> std::string {
    if (flag == quality_flag::disturbed)
      return "in every fork other processes used the processors, or the host moved them";
    if (flag == quality_flag::quota)
      return "in every fork the CPU quota of the control group stopped the threads of a worker: use at most as many "
             "--threads as the quota has processors, or raise it";
    if (flag == quality_flag::throttled) return "the GPU lowered its clocks";
    if (flag == quality_flag::unlike_hosts) return "its ranks ran on machines that differ";
    if (flag == quality_flag::profiled) return "each operator was timed, which slows the steps";
    return flag;
  };
  std::vector<std::string> all;
  for (const std::string& flag : flags) all.push_back(words(flag));
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace

Entry metric_entry(const CellReport& cell, std::string_view name) {
  const auto found = cell.metrics.find(name);
  if (found == cell.metrics.end()) return {"-", Tone::quiet};
  return {format_metric(found->second), found->second.value ? Tone::plain : Tone::quiet};
}

Entry without_interval(Entry entry) {
  entry.text = entry.text.substr(0, entry.text.find(" ["));
  return entry;
}

Entry metric_entry(const CellReport& cell, const MetricRow& metric) {
  const bool wide = metric.section == Section::times || metric.section == Section::memory_plans;
  const Entry entry = metric_entry(cell, metric.name);
  return wide ? entry : without_interval(entry);
}

Entry status_entry(const CellReport& cell) {
  if (cell.status != Status::ok) {
    const bool absent = cell.status == Status::unavailable || cell.status == Status::unsupported;
    return {std::string(to_string(cell.status)), absent ? Tone::quiet : Tone::bad};
  }
  if (!cell.flags.empty()) return {fmt::format("{}", fmt::join(cell.flags, ", ")), Tone::doubtful};
  return {"ok", Tone::good};
}

Entry equivalence_entry(const CellReport& cell) {
  const Equivalence& equivalence = cell.equivalence;
  if (!equivalence.checked)
    return cell.status == Status::ok ? Entry{"unchecked", Tone::doubtful} : Entry{"-", Tone::quiet};
  if (!equivalence.passed) return {"wrong", Tone::bad};
  const bool loose = is_loose(equivalence);
  const bool timed = is_of_timed_program(equivalence);
  return {fmt::format("{:.0f} % of bound{}{}", 100 * equivalence.worst, loose ? ", loosely" : "",
                      timed ? "" : ", not the timed program"),
          loose || !timed ? Tone::plain : Tone::good};
}

std::string ratio_text(const PairedRatio& ratio) {
  std::string text = format_value(ratio.value, Hint::ratio, "1");
  if (ratio.n == 0) return text + " unpaired";
  if (ratio.lower && ratio.upper)
    text += fmt::format(" [{}, {}]", format_significant(*ratio.lower), format_significant(*ratio.upper));
  else if (const std::string least = format_significant(ratio.least),
           greatest = format_significant(ratio.greatest);
           least != greatest)
    text += fmt::format(" ({} to {})", least, greatest);
  return text;
}

namespace {

// The ranked cells of a group, fastest first.
std::vector<std::size_t> ranked_of(const Analysis& all, const AnalyzedGroup& group) {
  std::vector<std::size_t> ranked;
  for (const std::size_t i : group.in_rank)
    if (all.cells[i].rank) ranked.push_back(i);
  return ranked;
}

std::string why_not_ranked(const Analysis& all, const AnalyzedGroup& group) {
  for (const std::size_t i : group.cells)
    if (contains(all.report_cell(i).flags, quality_flag::quota))
      return "Nothing is ranked: in every fork the CPU quota of the control group stopped the threads of a worker. Use "
             "at most as many --threads as the quota has processors, or raise it, and run again.";
  for (const std::size_t i : group.cells)
    if (contains(all.report_cell(i).flags, quality_flag::disturbed))
      return "Nothing is ranked: in every fork other processes used the processors, or the host moved them. "
             "Stop other processes, or use a quieter machine, and run again.";
  return group.provisional ? "Nothing is ranked." : "";
}

// "onednn graph; jax jit takes 5.4 times as long (5.1 to 6.0)". Also the pairs that stay apart.
std::string provisional_text(const Analysis& all, const Provisional& order) {
  constexpr std::size_t max_named = 8;
  std::vector<std::string> places, apart;
  for (const ProvisionalRow& row : order.rows) {
    if (places.size() == max_named) break;
    const AnalyzedCell& cell = all.cells[row.cell];
    const std::string& name = cell.series;
    const PairedRatio& ratio = row.to_first;
    const std::string range = ratio.n < 2 ? ""
                                          : fmt::format(" ({} to {})", format_significant(ratio.least),
                                                        format_significant(ratio.greatest));
    places.push_back(places.empty() ? name
                                    : fmt::format("{} takes {} times as long{}", name,
                                                  format_significant(ratio.value), range));
    if (row.apart_from)
      apart.push_back(fmt::format("{} from {}", cell.series, all.cells[*row.apart_from].series));
  }
  const std::size_t left = order.rows.size() - places.size();
  std::string text = fmt::format(
      "Provisional order, by {}, of which {} {} disturbed{}: {}{}.", plural(order.rounds, "round"),
      order.disturbed, order.disturbed == 1 ? "was" : "were",
      order.threads ? fmt::format(", with --threads {} because the machine was busy", *order.threads) : "",
      fmt::join(places, "; "), left > 0 ? fmt::format("; and {} more", left) : "");
  if (!apart.empty())
    text += fmt::format(" Apart in every round by more than the disturbance explains: {}.",
                        fmt::join(apart, ", "));
  return text +
         fmt::format(
             " It is not a ranking: an undisturbed machine may give another order, and {} undisturbed rounds would "
             "settle it.",
             rounds_for_interval);
}

std::string longer_text(const AnalyzedCell& cell) {
  const PairedRatio& ratio = *cell.to_fastest;
  return fmt::format("{} takes {}{} times as long", cell.series, ratio.lower ? "" : "about ",
                     format_significant(ratio.value));
}

// How --until clear ended for the group; absent: the run did not have it, or the cells are of several reports.
std::optional<HowEnded> how_ended(const Analysis& all, const AnalyzedGroup& group) {
  const std::size_t report = all.cells[group.cells.front()].report;
  const bool one =
      std::ranges::all_of(group.cells, [&](std::size_t i) { return all.cells[i].report == report; });
  if (!one) return std::nullopt;
  for (const GroupEnd& end : all.reports[report]->run.ended)
    if (end.group == group.title) return end.how;
  return std::nullopt;
}

bool had_until_clear(const Analysis& all, const AnalyzedGroup& group) {
  return how_ended(all, group) || std::ranges::any_of(group.cells, [&](std::size_t i) {
           return all.report_cell(i).status == Status::ok &&
                  all.reports[all.cells[i].report]->run.settings.until == "clear";
         });
}

// What would make the order clear, for a run with --until clear. Nothing: no two cells could be ranked.
std::string after_until_clear(std::optional<HowEnded> how) {
  if (!how) return " --until clear: fewer than two cells can be ranked.";
  switch (*how) {
    case HowEnded::clear:
      return " --until clear: the order is clear.";
    case HowEnded::equal:
      return " --until clear: those that are not clearly apart are within 2 % of each other.";
    case HowEnded::rounds:
      return " --until clear: 25 rounds did not make the order clear.";
    case HowEnded::time:
      return " --until clear: the time ended before the order was clear: resume the report (--resume), or use a longer "
             "--max-time.";
    case HowEnded::disturbed:
      return " --until clear: the machine was too disturbed, and too few rounds counted: stop other processes, or use a "
             "quieter machine.";
    case HowEnded::interrupted:
      return " --until clear: interrupted before the order was clear: resume the report (--resume).";
  }
  return "";
}

// How to make the answer more certain; empty if it is clear.
std::string next_step(const Analysis& all, const AnalyzedGroup& group) {
  if (const auto how = how_ended(all, group)) return after_until_clear(how);
  const bool tied = std::ranges::any_of(group.cells, [&](std::size_t i) { return all.cells[i].tied(); });
  return tied ? " More rounds may separate those with several places: use --until clear, or more --forks."
              : "";
}

// Cells that may be ranked, but share too few rounds.
std::string unranked_order(const Analysis& all, const AnalyzedGroup& group,
                           const std::vector<std::size_t>& timed) {
  constexpr std::size_t max_named = 4;
  const AnalyzedCell& first = all.cells[timed.front()];
  std::vector<std::string> others;
  for (const std::size_t i : timed)
    if (i != timed.front() && others.size() < max_named)
      others.push_back(fmt::format("{} {}", all.cells[i].series, ratio_text(*all.cells[i].to_fastest)));
  const bool one_report =
      std::ranges::all_of(timed, [&](std::size_t i) { return all.cells[i].report == first.report; });
  const std::string why =
      !one_report
          ? "the cells are of several reports, and were not measured in the same rounds: use assay compare for "
            "existing reports, or one run"
      : group.rounds == 0 ? "some cells share no round of one session that counts: measure them in one run"
                          : fmt::format("a rank needs {} rounds that count, and some cells share only {}",
                                        rounds_for_interval, group.rounds);
  const std::string next = !one_report || group.rounds == 0 ? ""
                           : how_ended(all, group)
                               ? next_step(all, group)
                               : fmt::format(" Use --forks {}, or --until clear.", rounds_for_interval);
  return fmt::format("Nothing is ranked: {}. Step times next to that of {}: {}.{}", why, first.series,
                     fmt::join(others, ", "), next);
}

std::string ranking_of(const Analysis& all, const AnalyzedGroup& group) {
  constexpr std::size_t max_named = 4;
  const std::vector<std::size_t> ranked = ranked_of(all, group);
  if (ranked.empty()) {
    std::vector<std::size_t> timed;
    for (const std::size_t i : group.in_rank)
      if (all.cells[i].time) timed.push_back(i);
    if (timed.size() > 1 && !group.provisional) return unranked_order(all, group, timed);
    const std::string why = why_not_ranked(all, group);
    const std::string end = had_until_clear(all, group) ? after_until_clear(how_ended(all, group)) : "";
    return why.empty() && !end.empty() ? end.substr(1) : why + end;
  }
  const AnalyzedCell& best = all.cells[ranked.front()];
  if (ranked.size() == 1)
    return fmt::format("{} takes {} a step; nothing else here can be ranked.", best.series,
                       format_value(*best.time, Hint::duration, "s"));
  std::vector<std::string> first, others;
  for (const std::size_t i : ranked) {
    const AnalyzedCell& cell = all.cells[i];
    if (cell.rank == best.rank)
      first.push_back(cell.series);
    else if (others.size() < max_named && cell.to_fastest)
      others.push_back(longer_text(cell));
  }
  std::string text = first.size() == 1
                         ? fmt::format("{} is the fastest of {}", first.front(), ranked.size())
                         : fmt::format("{} are the fastest of {}, with no clear difference between them",
                                       fmt::join(first, " and "), ranked.size());
  if (!others.empty()) text += fmt::format("; {}", fmt::join(others, ", "));
  const std::size_t left = ranked.size() - first.size() - others.size();
  if (left > 0) text += fmt::format(", and {} more take longer", left);
  return text + "." + next_step(all, group);
}

}  // namespace

std::string answer_of(const Analysis& all, const AnalyzedGroup& group) {
  std::string text = ranking_of(all, group);
  if (group.provisional) text += (text.empty() ? "" : " ") + provisional_text(all, *group.provisional);
  return text;
}

namespace {

// Forks with one warning, or with warnings that differ only in their numbers.
struct Warned {
  int forks = 0;
  std::string first{};
  bool differ = false;

  void add(const std::string& warning) {
    if (++forks == 1) first = warning;
    differ = differ || warning != first;
  }
};

// The words before its first number.
std::string kind_of_warning(const std::string& warning) {
  return warning.substr(0, warning.find_first_of("0123456789"));
}

}  // namespace

void add_warning_notes(Table& table, const Analysis& all, const AnalyzedGroup& group) {
  for (const std::size_t i : group.cells) {
    const CellReport& cell = all.report_cell(i);
    std::map<std::string, Warned> kinds;
    for (const Fork& fork : cell.forks)
      for (const std::string& warning : fork.warnings) kinds[kind_of_warning(warning)].add(warning);
    std::size_t left = max_warnings;
    for (const auto& [kind, warned] : kinds) {
      if (left-- == 0) {
        table.notes.push_back(fmt::format("{}: the report has warnings of other kinds.", short_name(cell)));
        break;
      }
      table.notes.push_back(fmt::format("{}: warning ({} of {} forks{}): {}.", short_name(cell), warned.forks,
                                        cell.forks.size(), warned.differ ? ", here the first" : "",
                                        one_line(warned.first, 300)));
    }
  }
}

namespace {

// The ops of a bare cell that its library does not support; may be empty.
std::string outside_of_library(const CellReport& cell) {
  for (const Fork& fork : cell.forks) {
    const auto found = fork.settings.find("outside_of_library");
    if (found != fork.settings.end()) return found->second == "none" ? "" : one_line(found->second, 300);
  }
  return "";
}

}  // namespace

void add_status_notes(Table& table, const Analysis& all, const AnalyzedGroup& group) {
  for (const std::size_t i : group.cells) {
    const CellReport& cell = all.report_cell(i);
    if (cell.status != Status::ok) {
      std::string note =
          fmt::format("{}: {}: {}", short_name(cell), to_string(cell.status), one_line(cell.reason, 300));
      // The reason of an absent backend has the remedy; for a failure print the command that repeats it.
      const bool absent = cell.status == Status::unavailable || cell.status == Status::unsupported;
      if (!absent && !cell.reproduce.empty()) note += "; again: " + cell.reproduce;
      table.notes.push_back(note);
    } else if (!cell.flags.empty()) {
      table.notes.push_back(fmt::format("{} is not ranked: {}.", short_name(cell), flags_text(cell.flags)));
    } else if (!all.cells[i].clean) {
      table.notes.push_back(fmt::format("{} is not ranked: not checked against the oracle{}{}",
                                        short_name(cell), cell.equivalence.reason.empty() ? "." : ": ",
                                        one_line(cell.equivalence.reason, 200)));
    }
    if (const std::string ops = outside_of_library(cell); !ops.empty())
      table.notes.push_back(
          fmt::format("{}: the library has no primitive for {}: plain loops compute all or part of them.",
                      short_name(cell), ops));
    // Older reports have a ratio of two single forks, which shows nothing.
    if (const auto& better = cell.better; better && better->lower && better->upper)
      table.notes.push_back(fmt::format(
          "{}: mode {}, layout {} took {} [{}, {}] of the time in a search here on {}.", short_name(cell),
          better->mode, better->layout, format_significant(better->ratio), format_significant(*better->lower),
          format_significant(*better->upper), better->date.substr(0, 10)));
    if (cell.status == Status::ok && cell.axes.loader == LoaderKind::native)
      table.notes.push_back(fmt::format(
          "{} was fed by its framework's own loader in a different order: not bit-equal to cells with "
          "other loaders.",
          short_name(cell)));
  }
}

}  // namespace assay

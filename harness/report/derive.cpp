// What is derived from the forks of a report that was written by other rules.
#include <fmt/format.h>

#include "harness/report/metrics.hpp"

namespace assay {
namespace {

// Before these rules, flags described how busy the fork's own threads were.
constexpr int rules_of_disturbance = 2;

// Up to rules 3 a fork was also marked for what happened to another one of its round.
constexpr std::string_view mark_of_rounds = "_round";

// Keeps the flags of a fork by older rules that still exist.
void take_older_flags(Fork& fork, int rules) {
  std::vector<std::string> kept;
  for (const std::string& flag : fork.flags) {
    const bool of_the_machine =
        flag == quality_flag::disturbed || flag == quality_flag::placement || flag == quality_flag::stolen;
    const bool known = flag == quality_flag::profiled || flag == quality_flag::throttled ||
                       flag == quality_flag::quota || flag == quality_flag::frozen ||
                       flag == quality_flag::fewer_threads || flag == quality_flag::unlike_hosts ||
                       (of_the_machine && rules >= rules_of_disturbance);
    if (known)
      kept.push_back(flag);
    else if (!flag.ends_with(mark_of_rounds))
      fork.warnings.push_back(
          fmt::format("flagged {} by rules {}, which used the fork's own threads", flag, rules));
  }
  fork.flags = std::move(kept);
}

}  // namespace

void derive_from_forks(CellReport& cell) {
  cell.flags = quality_flags(cell.forks);
  Metrics metrics = metrics_of(cell);
  metrics.merge(cell.metrics);
  cell.metrics = std::move(metrics);
}

void derive_again(Report& report) {
  if (report.rules >= derivation_rules) return;
  for (CellReport& cell : report.cells)
    for (Fork& fork : cell.forks) take_older_flags(fork, report.rules);
  mark_disturbances(report.cells);
  for (CellReport& cell : report.cells) derive_from_forks(cell);
  report.rules = derivation_rules;
}

}  // namespace assay

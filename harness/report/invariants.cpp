#include "harness/report/invariants.hpp"

#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace assay {
namespace {

void judge_run(Violations& violations, const Report& report) {
  const auto& run = report.run;
  const auto text = [&](const char* key) {
    return run.contains(key) && run[key].is_string() ? run[key].get<std::string>() : std::string();
  };
  const bool complete = run.contains("complete") && run["complete"] == true;
  // Both are ISO 8601 in UTC, which sorts as text.
  if (!text("start").empty() && !text("end").empty() && text("end") < text("start"))
    violations.add(fmt::format("the run ends at {}, before it starts at {}", text("end"), text("start")));
  if (complete && run.contains("end") && text("end").empty())
    violations.add("the run is complete but has no end");
  if (complete)
    for (const CellReport& cell : report.cells)
      if (cell.status == Status::interrupted)
        violations.add(fmt::format("the run is complete, but {} is interrupted", cell.id));
}

// Ratios are paired by rounds: a round has one seed, the same for every backend.
void judge_rounds(Violations& violations, const Report& report) {
  std::map<int, std::uint64_t> seeds;
  for (const CellReport& cell : report.cells)
    for (const Fork& fork : cell.forks)
      if (const auto [it, fresh] = seeds.emplace(fork.round, fork.seed); !fresh && it->second != fork.seed)
        violations.add(
            fmt::format("round {} has the seeds {} and {} ({})", fork.round, it->second, fork.seed, cell.id));
}

void judge_order(Violations& violations, const Report& report) {
  const auto& run = report.run;
  const std::size_t sessions =
      run.contains("sessions") && run["sessions"].is_array() ? run["sessions"].size() : 0;
  std::set<int> taken;
  for (const CellReport& cell : report.cells)
    for (const Fork& fork : cell.forks) {
      if (fork.session && !(*fork.session >= 0 && static_cast<std::size_t>(*fork.session) < sessions))
        violations.add(fmt::format("round {} of {} is of session {}, but the run has {} sessions", fork.round,
                                   cell.id, *fork.session, sessions));
      if (fork.order && !taken.insert(*fork.order).second)
        violations.add(fmt::format("two forks have the order {} ({})", *fork.order, cell.id));
    }
}

// Two correct measurements of the peak may differ by a tenth.
void judge_peak(Violations& violations, const CellReport& cell) {
  constexpr double over_peak = 1.1;
  const auto rate = cell.metrics.find("flops_per_second");
  if (rate == cell.metrics.end() || !rate->second.value || cell.status != Status::ok) return;
  const double peak = cell.work.peak_flops;
  if (peak > 0 && *rate->second.value > over_peak * peak)
    violations.add(fmt::format("does {:.3g} FLOP/s, above the measured peak of {:.3g}: it should be failed",
                               *rate->second.value, peak));
}

}  // namespace

bool is_clean(const CellReport& cell) {
  return cell.status == Status::ok && cell.flags.empty() &&
         (cell.equivalence.passed || cell.kind == BackendKind::oracle);
}

std::vector<std::string> invariant_violations(const Report& report) {
  Violations all("report");
  judge_run(all, report);
  judge_rounds(all, report);
  judge_order(all, report);
  std::set<std::string> ids;
  for (const CellReport& cell : report.cells) {
    Violations one(cell.id.substr(0, 200));
    if (!ids.insert(cell.id).second) one.add("the id is a duplicate");
    judge_cell(one, cell);
    judge_peak(one, cell);
    all.take(one);
  }
  return all.found();
}

}  // namespace assay

#include "harness/report/invariants.hpp"

#include <map>
#include <set>

#include <fmt/format.h>

#include "harness/report/hosts.hpp"

namespace assay {
namespace {

void validate_run(Violations& violations, const Report& report) {
  const RunRecord& run = report.run;
  // Both are ISO 8601 in UTC, which sorts as text.
  if (!run.start.empty() && run.end && !run.end->empty() && *run.end < run.start)
    violations.add(fmt::format("the run ends at {}, before it starts at {}", *run.end, run.start));
  if (run.complete && (!run.end || run.end->empty())) violations.add("the run is complete but has no end");
  if (run.complete)
    for (const CellReport& cell : report.cells)
      if (cell.status == Status::interrupted && cell.reason_code != ReasonCode::other_shard)
        violations.add(fmt::format("the run is complete, but {} is interrupted", cell.id));
}

// Ratios are paired by rounds: a round has one seed, the same for every backend.
void validate_rounds(Violations& violations, const Report& report) {
  std::map<int, std::uint64_t> seeds;
  for (const CellReport& cell : report.cells)
    for (const Fork& fork : cell.forks)
      if (const auto [it, fresh] = seeds.emplace(fork.round, fork.seed); !fresh && it->second != fork.seed)
        violations.add(
            fmt::format("round {} has the seeds {} and {} ({})", fork.round, it->second, fork.seed, cell.id));
}

void validate_order(Violations& violations, const Report& report) {
  const std::size_t sessions = report.run.sessions.size();
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

// In a merged report each comparison group ran on one machine, which all of its cells name.
void validate_environments(Violations& violations, const Report& report) {
  const std::size_t count = report.environments.size();
  if (count > 0 && report.environments.front() != report.environment)
    violations.add("its environment is not the first of its environments");
  std::map<std::string, int> machines;
  for (const CellReport& cell : report.cells) {
    if (cell.environment && !(*cell.environment >= 0 && static_cast<std::size_t>(*cell.environment) < count))
      violations.add(
          fmt::format("{} ran in environment {}, but the report has {}", cell.id, *cell.environment, count));
    if (count == 0 || cell.forks.empty()) continue;
    if (!cell.environment) {
      violations.add(fmt::format("{} has forks, but no environment", cell.id));
      continue;
    }
    const auto [found, added] = machines.emplace(group_title(cell.axes), *cell.environment);
    if (found->second != *cell.environment)
      violations.add(fmt::format("{} ran in environment {}, and a cell that it is compared with in {}",
                                 cell.id, *cell.environment, found->second));
  }
}

// Every machine of a rank is described once.
void validate_hosts(Violations& violations, const Report& report) {
  std::set<std::string> known;
  for (const HostRecord& host : report.hosts)
    if (!known.insert(host.name).second)
      violations.add(fmt::format("describes the host {} twice", host.name));
  for (const CellReport& cell : report.cells)
    for (const std::string& host : hosts_of(cell))
      if (!known.contains(host))
        violations.add(fmt::format("a rank of {} ran on {}, which is not one of its hosts", cell.id, host));
}

void validate_shard(Violations& violations, const Report& report) {
  const bool is_shard = report.run.shard.has_value();
  for (const CellReport& cell : report.cells) {
    if (cell.reason_code != ReasonCode::other_shard) continue;
    if (!is_shard)
      violations.add(fmt::format("{} belongs to another shard, but the run was not cut", cell.id));
    if (!cell.forks.empty())
      violations.add(fmt::format("{} belongs to another shard, but has forks", cell.id));
  }
}

// What a run allows at most, for convolutions: a report does not say whether its program has any.
void validate_peak(Violations& violations, const CellReport& cell) {
  constexpr double over_peak = 6;
  const auto rate = cell.metrics.find("flops_per_second");
  if (rate == cell.metrics.end() || !rate->second.value || cell.status != Status::ok) return;
  const double peak = cell.work.peak_flops;
  if (peak > 0 && *rate->second.value > over_peak * peak)
    violations.add(fmt::format("does {:.3g} FLOP/s, above the measured peak of {:.3g}: it should be failed",
                               *rate->second.value, peak));
}

}  // namespace

bool is_equal_to_oracle(const CellReport& cell) {
  return cell.equivalence.passed || (cell.kind == BackendKind::oracle && !cell.equivalence.checked);
}

bool is_clean(const CellReport& cell) {
  return cell.status == Status::ok && cell.flags.empty() && is_equal_to_oracle(cell);
}

std::vector<std::string> invariant_violations(const Report& report) {
  Violations all("report");
  validate_run(all, report);
  validate_rounds(all, report);
  validate_order(all, report);
  validate_environments(all, report);
  validate_hosts(all, report);
  validate_shard(all, report);
  // Newer rules may mean something else by a name.
  const bool known_rules = report.rules == derivation_rules;
  if (known_rules) validate_marks(all, report);
  std::set<std::string> ids;
  for (const CellReport& cell : report.cells) {
    Violations one(cell.id.substr(0, 200));
    if (!ids.insert(cell.id).second) one.add("the id is a duplicate");
    validate_cell(one, cell);
    if (known_rules) validate_derived(one, cell);
    validate_peak(one, cell);
    all.take(one);
  }
  return all.found();
}

}  // namespace assay

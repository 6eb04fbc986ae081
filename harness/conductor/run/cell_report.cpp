#include "harness/conductor/run/cell_report.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/fork/work.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/metrics.hpp"

namespace assay {
namespace {

constexpr const char* not_reached_text = "not reached";
constexpr const char* not_executed_text = "nothing is executed with --forks 0";

}  // namespace

CellReport planned_report(const Cell& cell, const RunSettings& settings) {
  CellReport row;
  row.id = cell.id;
  row.axes = cell.axes;
  row.kind = cell.backend->kind_of(cell.axes.mode);
  if (cell.runnable())
    end_with(row, ReasonCode::not_reached, not_reached_text);
  else
    end_like(row, cell);
  row.reproduce = cell.reproduce(settings, settings.seed);
  row.published = cell.published;
  row.work = work_of(cell);
  row.hyper_parameters = cell.hyper_parameters();
  row.settings = settings_in_force(cell);
  row.equivalence.reason = cell.check ? not_reached_text : "not requested (--check false)";
  row.metrics = metrics_of(row);
  row.metrics.merge(plan_metrics(cell));
  return row;
}

void take_earlier(CellReport& row, const Report& earlier) {
  if (row.status != Status::interrupted) return;
  const auto found = std::find_if(earlier.cells.begin(), earlier.cells.end(),
                                  [&](const CellReport& c) { return c.id == row.id; });
  if (found == earlier.cells.end()) return;
  if (found->reason_code == ReasonCode::not_checked) return;  // measured again: the oracle may answer now
  row.backend_version = found->backend_version;
  row.libraries = found->libraries;
  if (found->equivalence.reason != not_executed_text) row.equivalence = found->equivalence;
  row.check_spent = found->check_spent;
  row.work.peak_flops = found->work.peak_flops;
  row.work.copy_bandwidth = found->work.copy_bandwidth;
  for (const Fork& fork : found->forks) {
    const bool again = fork.status == Status::interrupted || fork.reason_code == ReasonCode::data_changed;
    if (!again) row.forks.push_back(fork);
  }
}

void take_hello(CellReport& row, const protocol::Hello& hello) {
  row.backend_version = hello.version_of_backend;
  // Sorted, because a process lists them in the order of its memory, which is random.
  auto libraries = hello.libraries;
  std::ranges::sort(libraries, {}, [](const auto& one) { return std::tie(one.name, one.path, one.version); });
  // The earlier forks used the libraries that the row has now.
  if (row.libraries != libraries) {
    for (Fork& fork : row.forks)
      if (!fork.libraries) fork.libraries = row.libraries;
  }
  row.libraries = std::move(libraries);
}

std::string other_library(const CellReport& row, const protocol::Hello& hello) {
  if (row.forks.empty()) return {};
  for (const protocol::Library& earlier : row.libraries) {
    const protocol::Library* other = nullptr;
    bool same = false;  // a process may load several files of one name
    for (const protocol::Library& now : hello.libraries) {
      if (earlier.name != now.name) continue;
      same = same || now.version == earlier.version;
      other = &now;
    }
    if (other != nullptr && !same)
      return fmt::format("{} {} is loaded, but the earlier forks used {}", other->name, other->version,
                         earlier.version);
  }
  return {};
}

void take_failed_check(CellReport& row, const Fork& check) {
  Fork fork;
  fork.seed = check.seed;
  end_like(fork, check);
  fork.reason.insert(0, "in the check before timing: ");
  fork.log_tail = check.log_tail;
  row.forks.push_back(std::move(fork));
}

bool has_round(const CellReport& row, int round) {
  return std::any_of(row.forks.begin(), row.forks.end(),
                     [&](const Fork& fork) { return fork.round == round; });
}

bool has_failed(const CellReport& row) {
  return std::any_of(row.forks.begin(), row.forks.end(),
                     [](const Fork& fork) { return fork.status != Status::ok; });
}

// Whether the oracle was asked, and did not answer.
bool is_unproven(const CellReport& row, const Cell& cell) {
  const std::string& reason = row.equivalence.reason;
  return cell.check && !row.equivalence.passed && !reason.empty() && reason != not_reached_text;
}

bool gives_up(const CellReport& row, const Cell& cell) {
  if (is_unproven(row, cell)) return true;
  if (!has_failed(row)) return false;
  if (cell.check && !row.equivalence.passed) return true;
  const auto crashes = std::count_if(row.forks.begin(), row.forks.end(),
                                     [](const Fork& fork) { return fork.status == Status::crashed; });
  const auto ok = std::count_if(row.forks.begin(), row.forks.end(),
                                [](const Fork& fork) { return fork.status == Status::ok; });
  return crashes > 1 || crashes + ok < std::ssize(row.forks);
}

void resolve_status(CellReport& row, const Cell& cell, const RunSettings& settings, int planned) {
  const auto is_ok = [](const Fork& fork) { return fork.status == Status::ok; };
  const auto is_wrong = [](const Fork& fork) { return fork.status == Status::wrong_result; };
  auto failed = std::find_if(row.forks.begin(), row.forks.end(), is_wrong);
  if (failed == row.forks.end()) failed = std::find_if_not(row.forks.begin(), row.forks.end(), is_ok);
  const auto ok = std::count_if(row.forks.begin(), row.forks.end(), is_ok);
  if (failed != row.forks.end()) {
    end_like(row, *failed);
    if (failed->status == Status::crashed && row.forks.size() > 1) {
      row.reason +=
          fmt::format(" ({} of {} forks crashed)",
                      std::count_if(row.forks.begin(), row.forks.end(),
                                    [](const Fork& fork) { return fork.status == Status::crashed; }),
                      row.forks.size());
    }
    row.reproduce = cell.reproduce(settings, failed->seed);
  } else if (cell.check && !row.equivalence.checked && row.equivalence.reason == not_reached_text) {
    end_with(row, ReasonCode::not_reached, not_reached_text);
  } else if (cell.check && !row.equivalence.passed) {
    end_with(row, ReasonCode::not_checked, "not checked: " + row.equivalence.reason);
  } else if (ok < planned) {
    end_with(row, ReasonCode::forks_missing,
             fmt::format("measured {} of {} forks; run the others with --resume", ok, planned));
  } else {
    end_with(row, ReasonCode::absent, "");
  }
  std::sort(row.forks.begin(), row.forks.end(),
            [](const Fork& a, const Fork& b) { return a.round < b.round; });
  derive_from_forks(row);
}

void resolve_as_plan(CellReport& row, const Cell& cell) {
  if (cell.check && !row.equivalence.checked) row.equivalence.reason = not_executed_text;
  end_with(row, ReasonCode::absent, "");
  derive_from_forks(row);
}

std::string fork_summary(const Fork& fork) {
  if (fork.status != Status::ok) return fmt::format("{}: {}", to_string(fork.status), fork.reason);
  std::string text = "ok";
  if (const auto time = fork_time(fork))
    text += fmt::format(", {} a step", duration_text(time->step_seconds));
  for (auto it = fork.evaluations.rbegin(); it != fork.evaluations.rend(); ++it) {
    if (it->split != DataSplit::test) continue;
    text += fmt::format(", test accuracy {:.4f}", it->accuracy);
    break;
  }
  for (const std::string& flag : fork.flags) text += ", " + flag;
  return text;
}

std::string check_summary(Status status, const std::string& reason, const Equivalence& equivalence) {
  if (status != Status::ok) return fmt::format("{}: {}", to_string(status), reason);
  if (!equivalence.checked) return "not checked: " + equivalence.reason;
  return fmt::format("equal to the oracle{}{}, worst error {:.2g} of its bound",
                     is_loose(equivalence) ? ", loosely" : "",
                     is_of_timed_program(equivalence) ? "" : " (not the timed program)", equivalence.worst);
}

}  // namespace assay

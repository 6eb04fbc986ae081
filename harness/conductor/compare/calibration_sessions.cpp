#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/compare/cell_decision.hpp"
#include "harness/conductor/compare/doubt.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/core/text.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay {
namespace {

constexpr std::size_t max_reasons = 5;

const CellReport* cell_with_id(const Report& report, const std::string& id) {
  const auto found = std::find_if(report.cells.begin(), report.cells.end(),
                                  [&](const CellReport& cell) { return cell.id == id; });
  return found == report.cells.end() ? nullptr : &*found;
}

[[noreturn]] void reject(const std::string& what, const std::string& was, const std::string& is) {
  throw ConfigError(fmt::format(
      "[calibrate] {} was {} and is {}: a calibration needs one build on one machine with the same settings; "
      "calibrate without --append to begin a new one",
      what, one_line(was, 100), one_line(is, 100)));
}

// Throws unless the values of all names in both maps are equal.
void require_equal(const std::map<std::string, std::string>& was,
                   const std::map<std::string, std::string>& is, const std::string& of) {
  for (const auto& [name, value] : was) {
    const auto other = is.find(name);
    if (other != is.end() && other->second != value) reject(of + name, value, other->second);
  }
}

const CellRuns* runs_of(const CalibrationSession& session, const std::string& id) {
  const auto found = std::find_if(session.cells.begin(), session.cells.end(),
                                  [&](const CellRuns& cell) { return cell.id == id; });
  return found == session.cells.end() ? nullptr : &*found;
}

// Throws unless the report may be part of the same calibration as the session.
void require_same(const CalibrationSession& session, const Report& report) {
  if (const auto machine = other_machine(session.machine, report.environment))
    reject(machine->what, machine->base, machine->current);
  require_equal(session.software, software_of(report), "");
  for (const CellReport& cell : report.cells)
    if (const CellRuns* runs = runs_of(session, cell.id))
      require_equal(runs->measured_as, measured_as({report, cell}),
                    fmt::format("{}: ", one_line(cell.id, 200)));
}

UsualPlacement usual_placement(std::span<const Report> runs) {
  std::vector<const CellReport*> cells;
  for (const Report& run : runs)
    for (const CellReport& cell : run.cells) cells.push_back(&cell);
  return UsualPlacement(cells);
}

// The forks of each run in which the cell has two or more.
CellRuns cell_runs(std::span<const Report> runs, const CellReport& first, const std::string& metric,
                   const UsualPlacement& usual) {
  CellRuns found;
  found.id = first.id;
  found.metric = metric;
  for (const Report& run : runs) {
    const CellReport* cell = cell_with_id(run, first.id);
    if (!cell || cell->status != Status::ok) continue;
    auto values = fork_values(*cell, metric, usual);
    const bool positive = std::all_of(values.begin(), values.end(), [](double value) { return value > 0; });
    if (values.size() < 2 || !positive) continue;
    if (found.runs.empty()) found.measured_as = measured_as({run, *cell});
    found.runs.push_back(std::move(values));
  }
  return found;
}

std::string metric_of(const CellReport& cell, const CalibrationSettings& settings) {
  return settings.metric.empty() ? main_metric(cell.axes) : settings.metric;
}

// "lenet5/...: crashed (killed by SIGSEGV)" for the first cells.
std::string failures_text(std::span<const Report> runs, const CalibrationSettings& settings) {
  const UsualPlacement usual = usual_placement(runs);
  std::string text;
  std::size_t said = 0;
  for (const CellReport& first : runs.front().cells) {
    if (said++ == max_reasons)
      return text + fmt::format("; and {} more", runs.front().cells.size() - max_reasons);
    // The first run in which the cell is not ok, else the last run.
    const CellReport* worst = &first;
    for (const Report& run : runs)
      if (const CellReport* cell = cell_with_id(run, first.id); cell && worst->status == Status::ok)
        worst = cell;
    const std::string metric = metric_of(first, settings);
    text += fmt::format(
        "{}{}: {}", said == 1 ? "" : "; ", one_line(worst->id, 200),
        worst->status != Status::ok
            ? fmt::format("{} ({})", to_string(worst->status), one_line(worst->reason, 200))
            : fmt::format("{} of {} forks count and have {}", fork_values(*worst, metric, usual).size(),
                          worst->forks.size(), metric));
  }
  return text;
}

CalibrationSession session_of(std::span<const Report> runs, const CalibrationSettings& settings) {
  CalibrationSession session;
  session.made = utc_now();
  for (const Report& run : runs)
    if (unix_seconds(run.run.start)) session.made = std::min(session.made, run.run.start);
  session.machine = machine_identity(runs.front().environment);
  session.software = software_of(runs.front());
  const UsualPlacement usual = usual_placement(runs);
  for (const CellReport& cell : runs.front().cells) {
    CellRuns found = cell_runs(runs, cell, metric_of(cell, settings), usual);
    if (!found.runs.empty()) session.cells.push_back(std::move(found));
  }
  if (session.cells.empty())
    throw ConfigError(
        fmt::format("[calibrate] no cell is ok with two or more forks: {}", failures_text(runs, settings)));
  for (const Report& run : runs) require_same(session, run);
  return session;
}

Calibration calibrated(std::vector<CalibrationSession> sessions, std::span<const Report> runs,
                       const CalibrationSettings& settings) {
  const Report& first = runs.front();
  try {
    return calibration_of(std::move(sessions), machine_fingerprint(first.environment).value_or(""),
                          machine_text(first.environment), settings);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", error.what(), failures_text(runs, settings)));
  }
}

}  // namespace

Calibration calibrate(std::span<const Report> runs, const CalibrationSettings& settings) {
  if (runs.size() < 2)
    throw ConfigError("[calibrate] one run does not show how runs differ; give two or more");
  return calibrated({session_of(runs, settings)}, runs, settings);
}

Calibration appended(const Calibration& earlier, std::span<const Report> runs,
                     const CalibrationSettings& settings) {
  for (const Report& run : runs) require_same_experiment(earlier, run);
  std::vector<CalibrationSession> sessions;
  for (const CalibrationSession& session : earlier.sessions)
    if (out_of_date(session, runs.front().environment, utc_now()).empty()) sessions.push_back(session);
  sessions.push_back(session_of(runs, settings));
  return calibrated(std::move(sessions), runs, settings);
}

void require_same_experiment(const Calibration& calibration, const Report& report) {
  for (const CalibrationSession& session : calibration.sessions) require_same(session, report);
}

std::string out_of_date(const CalibrationSession& session, const MachineRecord& machine,
                        std::string_view now) {
  const auto made = unix_seconds(session.made), today = unix_seconds(now);
  if (!made || !today) return fmt::format("its date is not valid ('{}')", session.made);
  const double days = static_cast<double>(*today - *made) / 86'400;
  if (days > calibration_days)
    return fmt::format("it is {:.0f} days old, and the maximum is {} because machines change", days,
                       calibration_days);
  const auto &was = session.machine.kernel, &is = machine.kernel;
  if (was && is && *was != *is)
    return fmt::format("it was made with kernel {}, and the new report with kernel {}", *was, *is);
  if (const auto difference = other_machine(session.machine, machine))
    return fmt::format("{} was {} and is {}", difference->what, one_line(difference->base, 100),
                       one_line(difference->current, 100));
  return {};
}

InForce in_force(const Calibration& calibration, const MachineRecord& machine, std::string_view now) {
  InForce found;
  std::vector<CalibrationSession> sessions;
  for (const CalibrationSession& session : calibration.sessions) {
    std::string why = out_of_date(session, machine, now);
    if (why.empty())
      sessions.push_back(session);
    else
      found.left_out.push_back(std::move(why));
  }
  if (found.left_out.empty()) {
    found.calibration = calibration;
    return found;
  }
  try {
    found.calibration = calibration_of(
        std::move(sessions), calibration.fingerprint, calibration.machine,
        {.threshold = calibration.threshold, .confidence = calibration.confidence, .metric = {}});
  } catch (const ConfigError&) {
    // The remaining sessions have one run of each cell; found.left_out has the reasons for the others.
  }
  return found;
}

}  // namespace assay

#include "harness/conductor/run/best_mode.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/config/options.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

bool is_searched(const Axis& axis) { return axis.name() == "mode" || axis.name() == "layout"; }

// The part of the id that all candidates of a work share.
std::string work_id(const Axes& axes) { return cell_id_without(axes, is_searched); }

// The step time of the fastest undisturbed fork; of the fastest fork if all were disturbed.
std::optional<double> step_of(const CellReport& row) {
  std::optional<double> quiet, any;
  for (const Fork& fork : row.forks) {
    const auto time = fork.status == Status::ok ? fork_time(fork) : std::nullopt;
    if (!time) continue;
    any = std::min(any.value_or(time->step_seconds), time->step_seconds);
    if (!is_disturbed(fork)) quiet = std::min(quiet.value_or(time->step_seconds), time->step_seconds);
  }
  return quiet ? quiet : any;
}

TriedRecord tried_of(const CellReport& row) {
  return {.mode = row.axes.mode, .layout = row.axes.layout, .step_time = step_of(row), .reason = row.reason};
}

// The row that makes only this cell.
ConfigRow row_of(const RunConfig& config, const Cell& cell) {
  ConfigRow row = config.rows[cell.row];
  const OptionValues values = row_values(config, row);
  for (const Axis& axis : axis_table()) {
    if (!axis.derived.empty() || !axis.applies_to(cell.axes.kind())) continue;
    const bool multiplied = list_of(values, axis.name()).size() > 1;
    const bool own = is_searched(axis) || axis.name() == "workload" || axis.name() == "backend" ||
                     (cell.axes.is_op() && (axis.name() == "task" || axis.name() == "size"));
    if (multiplied || own) row.values[std::string(axis.name())] = {cell.axes.text(axis.name())};
  }
  return row;
}

}  // namespace

bool is_trial_over(const CellReport& row) {
  return row.forks.empty() || row.forks.back().status != Status::ok || !is_disturbed(row.forks.back());
}

RunConfig trial_of(const RunConfig& config) {
  RunConfig trial = config;
  trial.override_with({{"forks", {"1"}},
                       {"spare-rounds", {"0"}},
                       {"until", {"forks"}},
                       {"fork-style", {"fresh"}},
                       {"check", {"false"}},
                       {"roofline", {"false"}}});
  return trial;
}

BestTrial::BestTrial(const std::vector<Cell>& of_cells, const Report& of_report)
    : cells(of_cells), report(of_report) {
  std::map<std::string, std::size_t> numbers;  // of each work, in the order of the cells
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].candidate) continue;
    const auto [work, is_new] = numbers.try_emplace(work_id(cells[i].axes), works.size());
    if (is_new) works.emplace_back();
    works[work->second].push_back(i);
  }
  for (std::vector<std::size_t>& work : works)
    std::stable_sort(work.begin(), work.end(), [&](std::size_t a, std::size_t b) {
      const auto left = step_of(report.cells[a]), right = step_of(report.cells[b]);
      return left && (!right || *left < *right);
    });
}

std::vector<BestRecord> best_of(const BestTrial& trial) {
  std::vector<BestRecord> found;
  for (const std::vector<std::size_t>& work : trial.works) {
    const Axes& axes = trial.cells[work.front()].axes;
    BestRecord best{.backend = axes.backend, .work = group_title(axes)};
    for (const std::size_t i : work) best.tried.push_back(tried_of(trial.report.cells[i]));
    found.push_back(std::move(best));
  }
  return found;
}

RunConfig with_best(const RunConfig& config, const BestTrial& trial) {
  const std::vector<Cell>& cells = trial.cells;
  std::set<std::size_t> kept, searched;
  for (const std::vector<std::size_t>& work : trial.works) kept.insert(work.front());
  for (const Cell& cell : cells)
    if (cell.candidate) searched.insert(cell.row);
  RunConfig chosen = config;
  chosen.rows.clear();
  for (std::size_t row = 0; row < config.rows.size(); ++row) {
    if (!searched.contains(row)) {
      chosen.rows.push_back(config.rows[row]);
      continue;
    }
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (cells[i].row == row && (!cells[i].candidate || kept.contains(i)))
        chosen.rows.push_back(row_of(config, cells[i]));
  }
  return chosen;
}

namespace {

// The content of a file of the memory.
struct Remembered {
  std::string date{};
  std::vector<TriedRecord> tried{};
};
inline Description describe(Of<Remembered>) {
  return fields("remembered", "A trial.", field("date", &Remembered::date, "ISO 8601, UTC."),
                field("tried", &Remembered::tried, "The fastest first."));
}

}  // namespace

BestMemory::BestMemory(fs::path folder) : folder_(std::move(folder)) {}

fs::path BestMemory::file_of(const CellReport& row, const nlohmann::json& environment) const {
  const auto cpu = environment.find("cpu");
  const std::string machine = cpu != environment.end() ? cpu->value("model", nlohmann::json()).dump() : "";
  return folder_ /
         (sha256(fmt::format("{}\n{}\n{}", work_id(row.axes), row.backend_version, machine)) + ".json");
}

void BestMemory::keep(const BestTrial& trial) const {
  const std::vector<CellReport>& rows = trial.report.cells;
  for (const std::vector<std::size_t>& work : trial.works) {
    const CellReport& first = rows[work.front()];
    const bool settled =
        std::all_of(work.begin(), work.end(), [&](std::size_t i) { return is_trial_over(rows[i]); });
    if (!settled || !step_of(first)) continue;
    Remembered found{.date = utc_now()};
    for (const std::size_t i : work) found.tried.push_back(tried_of(rows[i]));
    try {
      fs::create_directories(folder_);
      write_atomically(file_of(first, trial.report.environment), encode(found).dump() + "\n", false);
    } catch (const std::runtime_error&) {  // only a cache: the next run tries again
    }
  }
}

std::optional<BetterSetting> BestMemory::better(const CellReport& row,
                                                const nlohmann::json& environment) const {
  constexpr double worth_telling = 0.98;
  const fs::path file = file_of(row, environment);
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  try {
    const auto found = decoded<Remembered>(read_strict_json(file), file.string(), {.not_finite = false});
    const auto own = std::find_if(found.tried.begin(), found.tried.end(), [&](const TriedRecord& one) {
      return one.mode == row.axes.mode && one.layout == row.axes.layout;
    });
    if (own == found.tried.end() || !own->step_time) return std::nullopt;
    const TriedRecord& best = found.tried.front();
    if (!best.step_time) return std::nullopt;
    const double ratio = *best.step_time / *own->step_time;
    if (!(ratio < worth_telling)) return std::nullopt;
    return BetterSetting{best.mode, best.layout, ratio, found.date};
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace assay

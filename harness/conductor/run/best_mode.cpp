#include "harness/conductor/run/best_mode.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/devices.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/conductor/run/best_search.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

std::vector<TriedRecord> tried_of(const std::vector<std::size_t>& work, const Report& report) {
  const std::vector<std::optional<TrialRatio>> ratios = ratios_to_first(work, report);
  std::vector<TriedRecord> found;
  for (std::size_t n = 0; n < work.size(); ++n) {
    const CellReport& row = report.cells[work[n]];
    TriedRecord tried{.mode = row.axes.mode, .layout = row.axes.layout};
    if (is_eligible(row)) {
      tried.step_time = trial_step(row);
      tried.forks = static_cast<std::int64_t>(ok_forks(row).size());
      tried.ratio = ratios[n]->value;
      tried.lower = ratios[n]->lower;
      tried.upper = ratios[n]->upper;
    } else {
      tried.reason = row.reason;
    }
    found.push_back(std::move(tried));
  }
  return found;
}

// The row that makes only this cell.
ConfigRow row_of(const RunConfig& config, const Cell& cell) {
  ConfigRow row = config.rows[cell.row];
  const OptionValues values = row_values(config, row);
  const std::vector<std::string> device = list_of(values, "device");
  const bool is_chosen = !values.contains("device") || contains(device, machines_device);
  for (const Axis& axis : axis_table()) {
    if (!axis.derived.empty() || !axis.applies_to(cell.axes.kind())) continue;
    const bool multiplied = list_of(values, axis.name()).size() > 1;
    const bool own = is_searched(axis) || axis.name() == "workload" || axis.name() == "backend" ||
                     (is_chosen && axis.name() == "device") ||
                     (cell.axes.is_op() && (axis.name() == "task" || axis.name() == "size"));
    if (multiplied || own) row.values[std::string(axis.name())] = {cell.axes.text(axis.name())};
  }
  return row;
}

}  // namespace

RunConfig trial_of(const RunConfig& config) {
  const RunSettings settings = settings_of(config);
  RunConfig trial = config;
  trial.override_with({{"forks", {std::to_string(BestSearch::first_rounds(settings))}},
                       {"spare-rounds", {"0"}},
                       {"until", {"forks"}},
                       {"fork-style", {"fresh"}},
                       {"roofline", {"false"}}});
  return trial;
}

BestTrial::BestTrial(const std::vector<Cell>& of_cells, const Report& of_report)
    : cells(of_cells), report(of_report) {
  for (std::vector<std::size_t>& candidates : candidates_of(cells))
    works.push_back(in_order(std::move(candidates), report));
}

std::vector<BestRecord> best_of(const BestTrial& trial) {
  std::vector<BestRecord> found;
  for (const std::vector<std::size_t>& work : trial.works) {
    const Axes& axes = trial.cells[work.front()].axes;
    found.push_back(
        {.backend = axes.backend, .work = group_title(axes), .tried = tried_of(work, trial.report)});
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
                field("tried", &Remembered::tried, "The chosen one first."));
}

std::string name_of(const CellReport& row) {
  return sha256(fmt::format("{}\n{}", work_id(row.axes), row.backend_version));
}

}  // namespace

void BestMemory::keep(const BestTrial& trial) const {
  for (const std::vector<std::size_t>& work : trial.works) {
    const Remembered found{.date = utc_now(), .tried = tried_of(work, trial.report)};
    if (std::ranges::any_of(found.tried, [](const TriedRecord& one) { return one.lower.has_value(); }))
      store_.keep(trial.report.environment, encode(found), name_of(trial.report.cells[work.front()]));
  }
}

std::optional<BetterSetting> BestMemory::better(const CellReport& row, const MachineRecord& machine) const {
  const auto kept = store_.find(machine, name_of(row));
  if (!kept) return std::nullopt;
  try {
    const auto found = decoded<Remembered>(*kept, "best", {.not_finite = false});
    const auto own = std::find_if(found.tried.begin(), found.tried.end(), [&](const TriedRecord& one) {
      return one.mode == row.axes.mode && one.layout == row.axes.layout;
    });
    if (own == found.tried.end() || !own->ratio || !own->lower || !own->upper || *own->lower <= 1)
      return std::nullopt;
    const TriedRecord& best = found.tried.front();
    return BetterSetting{.mode = best.mode,
                         .layout = best.layout,
                         .ratio = 1 / *own->ratio,
                         .lower = 1 / *own->upper,
                         .upper = 1 / *own->lower,
                         .date = found.date};
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace assay

#include "harness/conductor/run/run.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "harness/conductor/process/interrupts.hpp"
#include "harness/conductor/run/measurement.hpp"

namespace assay {

bool RunOutcome::complete() const {
  return std::all_of(report.cells.begin(), report.cells.end(),
                     [](const CellReport& cell) { return cell.status == Status::ok; });
}

std::vector<Cell> cells_of(const RunRequest& request, const BackendRegistry& registry) {
  std::vector<Cell> cells = expand(request.config, registry);
  if (request.filter.empty()) return cells;
  const std::size_t all = cells.size();
  std::erase_if(cells, [&](const Cell& cell) { return !is_wanted(cell.id, request.filter); });
  if (cells.empty()) {
    throw ConfigError(fmt::format("[filter] got '{}': none of the {} cells has it in its id; see --dry-run",
                                  request.filter, all));
  }
  return cells;
}

RunOutcome run(const RunRequest& request, const BackendRegistry& registry, Progress& progress) {
  const Interrupts interrupts;
  Measurement measurement(request, registry, progress, interrupts);
  measurement.prepare();
  const std::vector<Cell>& cells = measurement.cells();
  const RunSettings& settings = measurement.settings();
  const auto stopped = [&] { return interrupts.signal() != 0; };
  const auto forks =
      request.check_alone ? std::vector<PlannedFork>{} : plan_forks(cells, settings.forks, settings.seed);
  progress.plan(static_cast<int>(std::count_if(
      forks.begin(), forks.end(), [&](const PlannedFork& fork) { return measurement.wanted(fork); })));
  // A quick run may end before its last cell: then some are whole, rather than all of them checked alone.
  const bool checks_first = !settings.quick || request.check_alone;
  for (std::size_t i = 0; i < cells.size() && checks_first && !stopped(); ++i) measurement.check(i);
  measurement.measure_rooflines(forks);
  for (const PlannedFork& fork : forks) {
    if (stopped()) break;
    if (!checks_first) measurement.check(fork.cell);
    if (measurement.wanted(fork)) measurement.time(fork);
  }
  progress.clear();
  return {measurement.finish(stopped()), interrupts.signal()};
}

}  // namespace assay

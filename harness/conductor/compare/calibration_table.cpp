#include "harness/conductor/compare/calibration_table.hpp"

#include <fmt/format.h>

namespace assay {
namespace {

std::string percent(double share) { return fmt::format("{:.2g} %", 100 * share); }

std::string visible(const CellNoise& cell) {
  std::string text;
  for (const auto& [forks, change] : cell.visible)
    if (forks <= 32) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", forks, percent(change));
  return text;
}

}  // namespace

Table calibration_table(const Calibration& calibration) {
  Table table;
  table.title = fmt::format("Noise of {} ({})", calibration.machine, calibration.fingerprint);
  table.columns = {{"cell"},
                   {"metric"},
                   {"runs", Align::right},
                   {"between forks", Align::right},
                   {"between runs", Align::right},
                   {"floor", Align::right},
                   {"alarms", Align::right},
                   {"forks and the change they see"},
                   {fmt::format("forks for {}", percent(calibration.threshold)), Align::right}};
  for (const CellNoise& cell : calibration.cells)
    table.rows.push_back(
        {{cell.id},
         {cell.metric},
         {fmt::format("{} x {}", cell.runs, cell.forks)},
         {percent(cell.within_runs)},
         {percent(cell.between_runs)},
         {percent(cell.floor)},
         {fmt::format("{}/{}", cell.alarms, cell.comparisons), cell.alarms > 0 ? Tone::bad : Tone::plain},
         {visible(cell)},
         {cell.forks_wanted ? fmt::format("{}", *cell.forks_wanted) : "none: assay ab",
          cell.forks_wanted ? Tone::plain : Tone::doubtful}});
  table.notes.push_back(
      fmt::format("False alarms: {} of {} comparisons of two runs of the same build, each "
                  "without what the runs differ by.",
                  calibration.alarms(), calibration.comparisons()));
  table.notes.push_back(
      calibration.forks
          ? fmt::format("Suggested: --forks {} for a threshold of {}.", *calibration.forks,
                        percent(calibration.threshold))
          : fmt::format("No number of forks shows {} in nine of ten cells here: ask `assay ab`, or take a "
                        "larger threshold.",
                        percent(calibration.threshold)));
  if (calibration.suggested_threshold)
    table.notes.push_back(fmt::format("With 12 forks a side a threshold of {} is seen in nine of ten cells.",
                                      percent(*calibration.suggested_threshold)));
  table.notes.push_back(
      "Between forks and between runs: standard deviations of ln(time). Floor: the largest change that two "
      "runs of one build are to be expected to show.");
  return table;
}

}  // namespace assay

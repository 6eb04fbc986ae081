#include "harness/conductor/print/report_tables.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/text.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay {
namespace {

std::string machine_name(const MachineRecord& machine) {
  const std::string name = machine.host ? one_line(*machine.host, 80) + ", " : "";
  return name + one_line(machine_text(machine), 200);
}

// The numbers of the shards that were not merged.
std::vector<int> missing_shards(const Merged& merged) {
  std::set<int> given;
  for (const MergedShard& shard : merged.shards) given.insert(shard.index);
  std::vector<int> missing;
  for (int index = 1; index <= merged.count; ++index)
    if (!given.contains(index)) missing.push_back(index);
  return missing;
}

}  // namespace

std::vector<std::string> merge_notes(const Report& report) {
  if (!report.run.merged) return {};
  const Merged& merged = *report.run.merged;
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{} of {}, {}.", merged.shards.size(), plural(merged.count, "shard"),
                              plural(report.cells.size(), "cell")));
  std::map<std::string, int> machines;
  for (const MachineRecord* machine : machines_of(report)) ++machines[machine_name(*machine)];
  for (const auto& [name, count] : machines)
    lines.push_back(fmt::format("{} on {}.", plural(count, "shard"), name));
  if (const std::vector<int> missing = missing_shards(merged); !missing.empty())
    lines.push_back(
        fmt::format("Missing: shard{} {}.", missing.size() == 1 ? "" : "s", fmt::join(missing, ", ")));
  std::map<Status, int> counts;
  for (const CellReport& cell : report.cells) ++counts[cell.status];
  std::vector<std::string> words;
  for (const auto& [status, count] : counts) words.push_back(fmt::format("{} {}", count, to_string(status)));
  lines.push_back(fmt::format("Cells: {}.", fmt::join(words, ", ")));
  if (counts.contains(Status::interrupted))
    lines.emplace_back("Measure the interrupted ones with: assay run --resume REPORT");
  return lines;
}

std::string environment_note(const Analysis& all, const AnalyzedGroup& group) {
  for (const std::size_t i : group.cells) {
    const Report& report = *all.reports[all.cells[i].report];
    const CellReport& cell = all.report_cell(i);
    if (!cell.environment || report.environments.empty() || cell.forks.empty()) continue;
    return fmt::format("Measured in environment {} of {}: {}.", *cell.environment + 1,
                       report.environments.size(), machine_name(machine_of(report, cell)));
  }
  return {};
}

}  // namespace assay

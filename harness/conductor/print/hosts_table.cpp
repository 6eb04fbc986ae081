#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/print/entries.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/core/text.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/hosts.hpp"

namespace assay {
namespace {

std::string machine_on(const Report& report, const std::string& host) {
  const auto found = std::ranges::find(report.hosts, host, &HostRecord::name);
  return found == report.hosts.end() ? "" : one_line(machine_text(found->machine), 80);
}

}  // namespace

Table hosts_table(const Analysis& all) {
  Table table{
      .title = "Machines of ranks: medians over the rounds that count, of the slowest rank of a machine",
      .columns = {{"cell"},
                  {"machine"},
                  {"ranks"},
                  {"step", Align::right},
                  {"step alone", Align::right},
                  {"taken by others", Align::right},
                  {"memory", Align::right},
                  {"what"}},
      .rows = {},
      .notes = {}};
  for (std::size_t i = 0; i < all.cells.size(); ++i) {
    const CellReport& cell = all.report_cell(i);
    for (const HostShare& share : host_shares(cell))
      table.rows.push_back({{fmt::format("{} {}", group_title(cell.axes), cell.axes.backend)},
                            {one_line(share.name, 60)},
                            {fmt::format("{}", fmt::join(share.ranks, ", "))},
                            {duration_text(share.step_time)},
                            {share.local_step_time ? duration_text(*share.local_step_time) : "-"},
                            {fmt::format("{:.1f} %", 100 * share.taken)},
                            {fmt::format("{:.0f} MiB", share.memory * 0x1p-20)},
                            {machine_on(*all.reports[all.cells[i].report], share.name)}});
  }
  return table;
}

}  // namespace assay

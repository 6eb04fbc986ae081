#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/print/entries.hpp"
#include "harness/conductor/print/report_tables.hpp"
#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/hosts.hpp"

namespace assay {
namespace {

std::string machine_on(const Report& report, const std::string& host) {
  const auto found = std::ranges::find(report.hosts, host, &HostRecord::name);
  return found == report.hosts.end() ? "" : one_line(machine_text(found->machine), 80);
}

// What the ranks on one machine did in one fork.
struct Share {
  std::vector<int> ranks{};
  double step_seconds = 0;  // of the slowest rank: the mean over its timed blocks
  double taken = 0;         // the largest share of its ranks' processors that others took
  std::int64_t memory = 0;  // bytes, the sum over its ranks
};

Share share_of(const Fork& fork, const std::string& host) {
  Share share;
  for (const RankRecord& rank : fork.ranks) {
    if (rank.host != host) continue;
    share.ranks.push_back(rank.rank);
    share.memory += rank.host_peak_rss;
    if (rank.disturbance) share.taken = std::max(share.taken, rank.disturbance->others_share());
    Fork own;
    own.blocks = rank.blocks;
    share.step_seconds = std::max(share.step_seconds, mean_step(own).value_or(0));
  }
  return share;
}

}  // namespace

Table hosts_table(const Analysis& all) {
  Table table{
      .title = "Machines of ranks: medians over the rounds that count, of the slowest rank of a machine",
      .columns = {{"cell"},
                  {"machine"},
                  {"ranks"},
                  {"step", Align::right},
                  {"taken by others", Align::right},
                  {"memory", Align::right},
                  {"what"}},
      .rows = {},
      .notes = {}};
  for (std::size_t i = 0; i < all.cells.size(); ++i) {
    const CellReport& cell = all.report_cell(i);
    for (const std::string& host : hosts_of(cell)) {
      std::vector<double> steps, taken, memory;
      std::vector<int> ranks;
      for (const Fork* fork : counted_forks(cell)) {
        Share share = share_of(*fork, host);
        if (share.ranks.empty()) continue;
        steps.push_back(share.step_seconds);
        taken.push_back(share.taken);
        memory.push_back(static_cast<double>(share.memory));
        ranks = std::move(share.ranks);
      }
      if (steps.empty()) continue;
      table.rows.push_back({{fmt::format("{} {}", group_title(cell.axes), cell.axes.backend)},
                            {one_line(host, 60)},
                            {fmt::format("{}", fmt::join(ranks, ", "))},
                            {duration_text(median(steps))},
                            {fmt::format("{:.1f} %", 100 * median(taken))},
                            {fmt::format("{:.0f} MiB", median(memory) * 0x1p-20)},
                            {machine_on(*all.reports[all.cells[i].report], host)}});
    }
  }
  return table;
}

}  // namespace assay

#include "harness/report/hosts.hpp"

#include <algorithm>
#include <utility>

#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {

void add_hosts(std::vector<HostRecord>& all, std::vector<HostRecord> others) {
  for (HostRecord& other : others)
    if (std::ranges::find(all, other.name, &HostRecord::name) == all.end()) all.push_back(std::move(other));
  std::ranges::sort(all, {}, &HostRecord::name);
}

std::vector<std::string> hosts_of(const CellReport& cell) {
  std::vector<std::string> names;
  for (const Fork& fork : cell.forks)
    for (const RankRecord& rank : fork.ranks)
      if (!rank.host.empty() && !contains(names, rank.host)) names.push_back(rank.host);
  return names;
}

namespace {

// In one fork.
HostShare share_of(const Fork& fork, const std::string& host) {
  HostShare share{.name = host};
  for (const RankRecord& rank : fork.ranks) {
    if (rank.host != host) continue;
    share.ranks.push_back(rank.rank);
    share.memory += static_cast<double>(rank.host_peak_rss);
    if (rank.disturbance) share.taken = std::max(share.taken, rank.disturbance->others_share());
    Fork own;
    own.blocks = rank.blocks;
    share.step_time = std::max(share.step_time, mean_step(own).value_or(0));
    if (rank.exchange && !rank.exchange->local_seconds.empty())
      share.local_step_time =
          std::max(share.local_step_time.value_or(0), median(rank.exchange->local_seconds));
  }
  return share;
}

}  // namespace

std::vector<HostShare> host_shares(const CellReport& cell) {
  std::vector<HostShare> found;
  for (const std::string& host : hosts_of(cell)) {
    std::vector<double> steps, taken, memory, local;
    std::vector<int> ranks;
    for (const Fork* fork : counted_forks(cell)) {
      HostShare share = share_of(*fork, host);
      if (share.ranks.empty()) continue;
      steps.push_back(share.step_time);
      taken.push_back(share.taken);
      memory.push_back(share.memory);
      if (share.local_step_time) local.push_back(*share.local_step_time);
      ranks = std::move(share.ranks);
    }
    if (steps.empty()) continue;
    found.push_back({host, std::move(ranks), median(steps), median(taken), median(memory)});
    if (!local.empty()) found.back().local_step_time = median(local);
  }
  return found;
}

}  // namespace assay

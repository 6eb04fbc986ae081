#include "harness/report/hosts.hpp"

#include <algorithm>
#include <utility>

#include "harness/core/text.hpp"

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

}  // namespace assay

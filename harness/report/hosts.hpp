// The machines of the cells whose ranks a launcher put on several.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/core/json/fields.hpp"
#include "harness/report/report.hpp"

namespace assay {

inline Description describe(Of<HostRecord>) {
  return fields("host", "A machine on which ranks of a cell ran.",
                field("name", &HostRecord::name, "Its host name.").not_empty(),
                field("machine", &HostRecord::machine, "As `environment` describes one."));
}

// Adds those whose name is new, and keeps the order of names.
void add_hosts(std::vector<HostRecord>& all, std::vector<HostRecord> others);

// What the ranks on one machine did: medians over the rounds that count.
struct HostShare {
  std::string name{};
  std::vector<int> ranks{};
  double step_time = 0;  // seconds, of the slowest rank: the mean over its timed blocks
  double taken = 0;      // the largest share of its ranks' processors that others took
  double memory = 0;     // bytes, the sum of its ranks' maxima
  // Seconds of a step without the exchange, of the slowest rank: it waits for no other machine, so it shows a slow one.
  // nullopt: it was not measured.
  std::optional<double> local_step_time{};
};
// In the order of their first ranks; none if all ranks were on one machine.
std::vector<HostShare> host_shares(const CellReport& cell);

// The names of the machines of a cell's ranks, in the order of their first ranks; empty if all were on one.
std::vector<std::string> hosts_of(const CellReport& cell);

}  // namespace assay

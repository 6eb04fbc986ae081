// The machines of the cells whose ranks a launcher put on several.
#pragma once

#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Adds those whose name is new, and keeps the order of names.
void add_hosts(std::vector<HostRecord>& all, std::vector<HostRecord> others);

// The names of the machines of a cell's ranks, in the order of their first ranks; empty if all were on one.
std::vector<std::string> hosts_of(const CellReport& cell);

}  // namespace assay

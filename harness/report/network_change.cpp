#include "harness/report/network_change.hpp"

#include <fmt/format.h>

#include "harness/core/text.hpp"

namespace assay {

std::string_view imported_name(std::string_view workload) {
  const std::size_t at = workload.rfind('@');
  return at == workload.npos ? std::string_view() : workload.substr(0, at);
}

std::string to_string(const NetworkChange& change) {
  return fmt::format("{} became {}: its network.json was changed", change.before, change.now);
}

std::vector<std::string> workloads_of(std::span<const CellReport> cells) {
  std::vector<std::string> names;
  for (const CellReport& cell : cells)
    if (!contains(names, cell.axes.workload)) names.push_back(cell.axes.workload);
  return names;
}

std::optional<NetworkChange> changed_network(const std::vector<std::string>& before,
                                             const std::vector<std::string>& now) {
  for (const std::string& one : now) {
    const std::string_view name = imported_name(one);
    if (name.empty() || contains(before, one)) continue;
    for (const std::string& other : before)
      if (imported_name(other) == name) return NetworkChange{other, one};
  }
  return std::nullopt;
}

}  // namespace assay

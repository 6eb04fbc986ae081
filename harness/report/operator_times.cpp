#include "harness/report/operator_times.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/core/statistics.hpp"

namespace assay {

std::optional<double> seconds_per_call(const protocol::OperatorTime& kernel) {
  if (kernel.calls <= 0 || !std::isfinite(kernel.seconds)) return std::nullopt;
  return kernel.seconds / static_cast<double>(kernel.calls);
}

std::vector<OpTime> op_times(const CellReport& cell) {
  std::vector<std::map<std::string, double>> forks;
  std::map<std::string, std::vector<double>> by_op;
  for (const Fork& fork : cell.forks) {
    if (fork.status != Status::ok || fork.operators.empty()) continue;
    std::map<std::string, double> sums;
    for (const protocol::OperatorTime& kernel : fork.operators)
      if (const auto seconds = seconds_per_call(kernel))
        sums[kernel.op.empty() ? "unnamed" : kernel.op] += *seconds;
    for (const auto& [op, seconds] : sums) by_op[op];
    forks.push_back(std::move(sums));
  }
  std::vector<OpTime> out;
  for (auto& [op, values] : by_op) {
    for (const auto& sums : forks) {
      const auto found = sums.find(op);
      values.push_back(found == sums.end() ? 0 : found->second);
    }
    out.push_back({op, median(values)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace assay

#include "harness/report/operator_times.hpp"

#include <algorithm>
#include <map>

#include "harness/core/statistics.hpp"

namespace assay {
namespace {

std::optional<double> number_of(const nlohmann::json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::string op_of(const nlohmann::json& kernel) {
  const auto found = kernel.find("op");
  return found != kernel.end() && found->is_string() ? found->get<std::string>() : "unnamed";
}

}  // namespace

std::optional<double> seconds_per_call(const nlohmann::json& kernel) {
  const auto seconds = number_of(kernel, "seconds"), calls = number_of(kernel, "calls");
  if (!seconds || !calls || *calls <= 0) return std::nullopt;
  return *seconds / *calls;
}

std::vector<OperatorTime> operator_times(const CellReport& cell) {
  std::vector<std::map<std::string, double>> forks;
  std::map<std::string, std::vector<double>> by_op;
  for (const Fork& fork : cell.forks) {
    if (fork.status != Status::ok || !fork.operators.is_array() || fork.operators.empty()) continue;
    std::map<std::string, double> sums;
    for (const nlohmann::json& kernel : fork.operators)
      if (const auto seconds = seconds_per_call(kernel)) sums[op_of(kernel)] += *seconds;
    for (const auto& [op, seconds] : sums) by_op[op];
    forks.push_back(std::move(sums));
  }
  std::vector<OperatorTime> out;
  for (auto& [op, values] : by_op) {
    for (const auto& sums : forks) {
      const auto found = sums.find(op);
      values.push_back(found == sums.end() ? 0 : found->second);
    }
    out.push_back({op, median(values)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const OperatorTime& a, const OperatorTime& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace assay

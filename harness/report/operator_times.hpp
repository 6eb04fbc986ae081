// The per-op profile of a fork (`--profile`), as far as it can be read: a report's profile is not checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/report/report.hpp"

namespace assay {

// Mean seconds of one call of a kernel; nothing if the entry does not have them.
std::optional<double> seconds_per_call(const nlohmann::json& kernel);

// All kernels of one op.
struct OperatorTime {
  std::string op{};
  double seconds = 0;  // per step: the sum over its kernels, the median over the forks
};

// The median over the forks that are ok, largest first. An op that a fork does not have took no time there.
std::vector<OperatorTime> operator_times(const CellReport& cell);

}  // namespace assay

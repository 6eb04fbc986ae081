// The per-op profile of a cell (`--profile`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Mean seconds of one call of a kernel; nothing if it was not called, or its time is not a number.
std::optional<double> seconds_per_call(const protocol::OperatorTime& kernel);

// All kernels of one op.
struct OpTime {
  std::string op{};
  double seconds = 0;  // per step: the sum over its kernels, the median over the forks
};

// The median over the forks that are ok, largest first. An op that a fork does not have took no time there.
std::vector<OpTime> op_times(const CellReport& cell);

}  // namespace assay

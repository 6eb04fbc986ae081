// What this machine does at most, measured in the same run: the rate of a large matrix product and of a
// copy that no cache holds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/conductor/run/fork.hpp"
#include "harness/conductor/run/progress.hpp"

namespace assay {

// The probes are cells like others: op/gemm and op/from_array, on every backend that is a bare library and
// is available (the oracle where there is none), unchecked. The best block of any probe of the run counts, so
// that a disturbance makes no line lower. Borrows everything.
class Rooflines {
 public:
  Rooflines(const ForkContext& context, Progress& progress) : context_(context), progress_(progress) {}

  // Measures for the device, precision and threads of a cell; again where it was measured before. A probe
  // that fails leaves the line as it was, 0 at first.
  void measure(const Axes& axes);
  bool measured(const Axes& axes) const { return peaks_.contains(peak_key(axes)); }
  // Fills in the lines of a cell. Larger ones that it has stay: of an earlier run that is resumed.
  void apply(const Axes& axes, Work& work) const;

  // Into the report's environment: "peak_flops" {"cpu/fp32/t2": FLOP/s}, "copy_bandwidth" {"cpu/t2": B/s} and
  // "roofline_probes" [{"cell", "rate", "unit", "reason"}].
  void write(nlohmann::json& environment) const;

 private:
  static std::string peak_key(const Axes& axes);
  static std::string copy_key(const Axes& axes);
  std::vector<Cell> probes(const Axes& axes, const std::string& workload, const std::string& size,
                           CacheState cache, PrecisionKind precision) const;
  double rate(const Cell& probe, double amount, const char* unit);

  const ForkContext& context_;
  Progress& progress_;
  std::map<std::string, double> peaks_, copies_;
  nlohmann::json log_ = nlohmann::json::array();
};

// Median seconds a step over the timed blocks of a fork; 0 where there is none.
double median_step(const Fork& fork);

// Why a cell cannot be what it claims: it does more floating-point operations a second than a tenth above the
// measured peak, or reads its cold operands at more than twice the copy's bandwidth (a copy writes as much as
// it reads, and a write costs up to twice a read). Empty: it can. `input_bytes` are those of the operands.
std::string beyond_roofline(const Axes& axes, const Work& work, double input_bytes, double step_seconds);

}  // namespace assay

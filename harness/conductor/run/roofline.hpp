// The limits of this machine, measured in the same run: the rate of the fastest matrix product and the
// bandwidth of a copy that no cache holds.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/conductor/fork/fork.hpp"
#include "harness/conductor/run/progress.hpp"
#include "harness/conductor/store/machine_store.hpp"
#include "harness/graph/program.hpp"
#include "harness/machine/machine_record.hpp"

namespace assay {

// The matrix products that are measured. On a processor those whose operands fit into a cache can be an
// eighth faster than large ones; a GPU is filled only by large ones.
std::vector<std::string> product_sizes(DeviceKind device);
// A product that tells the peak in a short time.
std::string quick_product_size(DeviceKind device);

// What products reached on this machine.
struct MachinePeak {
  double rate = 0;  // FLOP/s, of the fastest
  bool is_limit =
      false;  // one was measured while nothing else used the processors: next to other work all are slower

  void add(double reached, bool counts) {
    rate = std::max(rate, reached);
    is_limit = is_limit || (reached > 0 && counts);
  }
};

// Peaks between runs, by machine.
class PeakMemory {
 public:
  explicit PeakMemory(MachineStore store = MachineStore::in_cache("peaks")) : store_(std::move(store)) {}
  // Nothing if it is unknown.
  std::optional<double> rate(const std::string& key, const MachineRecord& machine) const;
  // Keeps a rate that is larger than the kept one.
  void keep(const std::string& key, double rate, const MachineRecord& machine) const;

 private:
  MachineStore store_;
};

// The probes are ordinary cells, unchecked: op/gemm and op/from_array, on every available backend that is a
// bare library (without one on the oracle). The best block of all probes of the run counts, so that a
// disturbance does not lower a limit. Borrows everything.
class Rooflines {
 public:
  Rooflines(const ForkContext& context, Progress& progress) : context_(context), progress_(progress) {}

  // Measures for the device, precision and threads of a cell, even if measured before. A failed probe does
  // not change the limit, which is 0 at first.
  void measure(const Axes& axes);
  // Reads the peak that an earlier run of this machine kept, or measures and keeps it. For networks,
  // which have no other limit.
  void know_peak(const Axes& axes, const MachineRecord& machine);
  // Keeps a peak that is a limit, if it is larger than the kept one.
  void keep_peak(const Axes& axes, const MachineRecord& machine) const;
  bool measured(const Axes& axes) const { return axes.ranks() == 1 && peaks_.contains(peak_key(axes)); }
  // Whether a cell can be refused because it is faster. It must have been measured.
  bool is_limit(const Axes& axes) const { return peaks_.at(peak_key(axes)).is_limit; }
  // Fills in the limits of a cell with one rank: probes run in one process. Keeps larger ones, which come from a resumed report.
  void apply(const Axes& axes, Work& work) const;

  // Adds what was measured to the report's machine.
  void write(MachineRecord& machine) const;

 private:
  static std::string peak_key(const Axes& axes);
  static std::string kept_key(const Axes& axes);
  static std::string copy_key(const Axes& axes);
  std::vector<Cell> probes(const Axes& axes, const std::string& workload, const std::string& size,
                           CacheState cache, PrecisionKind precision) const;
  // The rate, 0 if it failed, and whether it counts: nothing else used the processors.
  std::pair<double, bool> rate(const Cell& probe, double amount, const char* unit);
  void measure_peak(const Axes& axes, const std::string& size);

  const ForkContext& context_;
  Progress& progress_;
  PeakMemory memory_;
  std::map<std::string, MachinePeak> peaks_;
  std::map<std::string, double> copies_;
  std::vector<RooflineProbe> log_;
};

// Median seconds per step over the timed blocks of a fork, or on its device alone if that is less; 0 without such blocks.
double least_step(const Fork& fork);

// How many times the operations per second of the measured peak a program may do: a single op 1.1; a network 2.5,
// because the machine may have been busy when the peak was measured; either 6 with convolutions, which need up to four
// times fewer by Winograd's algorithm (Lavin & Gray 2016).
double allowed_over_peak(const Program& program);

// Why the speed of a cell is not possible; empty if it is. A cell may do at most `over_peak` times the floating-point
// operations per second of the measured peak, and read its cold operands at most at twice the copy's
// bandwidth (a copy writes as much as it reads, and a write costs up to twice a read). `input_bytes`: the
// size of the operands.
std::string beyond_roofline(const Axes& axes, const Work& work, double input_bytes, double step_seconds,
                            double over_peak = 1.1);

// Whether a step does so many operations per second that the machine's peak is worth measuring: more than 10 GFLOP/s for
// each thread, or any on a GPU.
bool may_be_beyond_peak(const Axes& axes, const Work& work, double step_seconds);

}  // namespace assay

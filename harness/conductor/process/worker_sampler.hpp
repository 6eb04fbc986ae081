// Samples a worker's use of the machine from outside, at a low rate.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Processor time of all threads of one process, without its children, from /proc: in ticks, usually of 10 ms. Nothing
// if it has ended.
std::optional<std::int64_t> processor_time_ns(pid_t process);

// The same in nanoseconds, with the time of the children that it waited for (in ticks).
std::optional<std::int64_t> process_and_waited_ns(pid_t process);

// Processor time of a worker, all its descendants and what it left behind (orphans_of()), running or waited for. Misses a
// child that ended and that nobody waited for. Nothing if the worker has ended.
std::optional<std::int64_t> tree_processor_time_ns(pid_t process);

// A worker, what it left behind, and everything below them.
std::vector<pid_t> process_tree(pid_t process);

// How long the threads of the same processes have been ready to run without a processor, see
// process_waited_ns(). Nothing if it is unknown.
std::optional<std::int64_t> tree_waited_ns(pid_t process);

// Stopped by a signal or a debugger. False if it has ended.
bool is_stopped(pid_t process);
// Has its own action for a signal, from /proc. False if it has ended.
bool catches(pid_t process, int signal);

// Resident bytes of one process, from /proc. 0 if they are unknown, or if it has ended.
struct ResidentBytes {
  std::int64_t now = 0;
  std::int64_t peak = 0;  // since it executed its program, or since forget_peak_of()
};
ResidentBytes resident_bytes(pid_t process);
// Lets the peak of a process begin again; without permission it does not.
void forget_peak_of(pid_t process);

// Mean clock frequency of these processors in Hz, from the system; 0 if it is unknown.
double mean_frequency(std::span<const int> processors, const std::string& folder = "/sys/devices/system/cpu");

// Follows a worker with all its threads, its descendants and what it left behind (orphans_of()), using the lists of
// children in /proc; takes some ten microseconds per thread and sample. CPU time: the sum over the live processes of the tree and the
// children they have waited for. Resident bytes: the sum over the live processes; shared pages count in each.
class WorkerSampler {
 public:
  // nullopt the first time (a rate needs two samples) and if the process has ended.
  std::optional<MachineSample> sample(pid_t process);

  // The processes of the last sample, the worker first; empty before the first sample.
  std::span<const pid_t> processes() const { return processes_; }
  // Whether the worker itself was stopped, by a signal or a debugger, in the last sample.
  bool is_stopped() const { return is_stopped_; }
  // Processors in use, between the last two samples that are far enough apart; nullopt without two.
  std::optional<double> rate() const { return last_rate_; }
  // The largest sum of resident bytes up to now, including the first sample; 0 before.
  std::int64_t peak_rss() const { return peak_rss_; }
  void forget_peak() { peak_rss_ = 0; }

 private:
  std::int64_t last_time_ns_ = 0;
  std::int64_t last_cpu_ns_ = 0;
  std::optional<double> last_rate_;
  std::int64_t peak_rss_ = 0;
  bool is_stopped_ = false;
  std::vector<pid_t> processes_;
};

}  // namespace assay

// Looks at the threads of a worker while it runs: on which processors they may run, and which of them compute.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace assay {

// What one look sees of a thread.
struct ThreadSeen {
  cpu_set_t allowed{};
  std::int64_t cpu_ns = 0;  // since it began; 0 if the kernel does not count it
};
// The threads of these processes. Those that end meanwhile are left out. Takes about 10 us for each, and less
// without their processor times.
std::map<pid_t, ThreadSeen> threads_of(std::span<const pid_t> processes, bool with_times = true);

class ThreadWatch {
 public:
  // cores: the worker's processors; empty: it is not held to any, and nothing is found.
  explicit ThreadWatch(std::vector<int> cores) : cores_(std::move(cores)) {}

  // Processor time from now on counts.
  void begin(std::span<const pid_t> processes);
  void look(const std::map<pid_t, ThreadSeen>& threads);
  void look(std::span<const pid_t> processes) { look(threads_of(processes)); }
  // Only for a processor outside, which is cheap enough while blocks are timed.
  void look_outside(std::span<const pid_t> processes);

  // A processor outside of the worker's on which a thread may run; nullopt without one.
  std::optional<int> outside() const { return outside_; }
  // The processors that the threads of the last look may use, if they are fewer than the worker's: because no thread may use
  // another one, or because several threads that compute must share too few. Empty otherwise. A thread computes if it
  // used a tenth as much processor time since begin() as the one that used most.
  std::vector<int> confined_to() const { return confined_to_; }

 private:
  void note_outside(const cpu_set_t& allowed);

  std::vector<int> cores_;
  std::map<pid_t, std::int64_t> before_;
  std::optional<int> outside_;
  std::vector<int> confined_to_;
};

}  // namespace assay

#include "harness/conductor/process/thread_watch.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace assay {
namespace {

constexpr double min_share_of_most = 0.1;

bool is_in(int cpu, const cpu_set_t& set) { return CPU_ISSET(static_cast<unsigned>(cpu), &set); }

}  // namespace

std::map<pid_t, ThreadSeen> threads_of(std::span<const pid_t> processes, bool with_times) {
  std::map<pid_t, ThreadSeen> threads;
  for (const pid_t process : processes) {
    std::error_code gone;
    for (const auto& task :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), gone)) {
      const pid_t thread = static_cast<pid_t>(std::atoi(task.path().filename().c_str()));
      ThreadSeen seen;
      if (::sched_getaffinity(thread, sizeof seen.allowed, &seen.allowed) != 0) continue;
      // Three numbers: the first is its time on a processor.
      if (with_times) std::ifstream(task.path() / "schedstat") >> seen.cpu_ns;
      threads.emplace(thread, seen);
    }
  }
  return threads;
}

void ThreadWatch::begin(std::span<const pid_t> processes) {
  before_.clear();
  outside_.reset();
  confined_to_.clear();
  if (cores_.empty()) return;
  for (const auto& [thread, seen] : threads_of(processes)) before_[thread] = seen.cpu_ns;
}

void ThreadWatch::note_outside(const cpu_set_t& allowed) {
  for (int cpu = 0; cpu < CPU_SETSIZE && !outside_; ++cpu)
    if (is_in(cpu, allowed) && std::ranges::find(cores_, cpu) == cores_.end()) outside_ = cpu;
}

void ThreadWatch::look_outside(std::span<const pid_t> processes) {
  if (cores_.empty() || outside_) return;
  for (const auto& [thread, seen] : threads_of(processes, false)) note_outside(seen.allowed);
}

void ThreadWatch::look(const std::map<pid_t, ThreadSeen>& threads) {
  if (cores_.empty() || threads.empty()) return;
  const auto used_ns = [&](const auto& thread) {
    const auto then = before_.find(thread.first);
    return thread.second.cpu_ns - (then == before_.end() ? 0 : then->second);
  };
  std::int64_t most_ns = 0;
  for (const auto& thread : threads) most_ns = std::max(most_ns, used_ns(thread));
  cpu_set_t of_all, of_busy;
  CPU_ZERO(&of_all);
  CPU_ZERO(&of_busy);
  std::size_t busy = 0;
  for (const auto& thread : threads) {
    const cpu_set_t& allowed = thread.second.allowed;
    CPU_OR(&of_all, &of_all, &allowed);
    if (static_cast<double>(used_ns(thread)) < min_share_of_most * static_cast<double>(most_ns)) continue;
    ++busy;
    CPU_OR(&of_busy, &of_busy, &allowed);
  }
  note_outside(of_all);
  const auto own = [&](const cpu_set_t& set) {
    std::vector<int> found;
    std::ranges::copy_if(cores_, std::back_inserter(found), [&](int cpu) { return is_in(cpu, set); });
    return found;
  };
  confined_to_ = own(of_all);
  if (confined_to_.size() < cores_.size()) return;
  confined_to_ = own(of_busy);
  if (busy < 2 || confined_to_.size() >= std::min(busy, cores_.size())) confined_to_.clear();
}

}  // namespace assay

#include "harness/conductor/process/worker_sampler.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "harness/conductor/process/survivors.hpp"
#include "harness/core/clock.hpp"
#include "harness/core/process_tree.hpp"

namespace assay {
namespace {

// The kernel counts CPU time in ticks, usually of 10 ms. A rate over only a few ticks is noise, so the
// previous rate is kept.
constexpr std::int64_t min_rate_ns = 50'000'000;

std::string read_small(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string all;
  char text[4096];
  for (ssize_t count; (count = ::read(file, text, sizeof text)) > 0;)
    all.append(text, static_cast<std::size_t>(count));
  ::close(file);
  return all;
}

struct Usage {
  char state = '?';
  std::int64_t own_cpu_ns = 0;
  std::int64_t cpu_ns = 0;  // with the children that it waited for
  std::int64_t resident = 0;
};

std::optional<Usage> usage_of(const std::string& folder) {
  const std::string stat = read_small(folder + "/stat");
  // The command may contain spaces and parentheses: count the fields after it.
  const std::size_t command_end = stat.rfind(')');
  if (command_end == std::string::npos) return std::nullopt;
  char state = '?';
  unsigned long user = 0, system = 0;
  long waited_user = 0, waited_system = 0, resident_pages = 0;
  if (std::sscanf(stat.c_str() + command_end + 1,
                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld %*d %*d %*d %*d %*u %*u %ld",
                  &state, &user, &system, &waited_user, &waited_system, &resident_pages) != 6) {
    return std::nullopt;
  }
  static const std::int64_t tick_ns = 1'000'000'000 / ::sysconf(_SC_CLK_TCK);
  static const std::int64_t page_bytes = ::sysconf(_SC_PAGESIZE);
  const auto own = static_cast<std::int64_t>(user + system);
  return Usage{state, own * tick_ns, (own + waited_user + waited_system) * tick_ns,
               resident_pages * page_bytes};
}

std::string status_of(pid_t process) { return read_small(fmt::format("/proc/{}/status", process)); }

// What follows a name in a status, up to its end; empty without the name.
const char* after(const std::string& status, std::string_view name) {
  const std::size_t at = status.find(name);
  return at == std::string::npos ? "" : status.c_str() + at + name.size();
}

std::int64_t bytes_after(const std::string& status, std::string_view name) {
  return 1024 * std::strtoll(after(status, name), nullptr, 10);
}

}  // namespace

std::optional<std::int64_t> processor_time_ns(pid_t process) {
  const auto usage = usage_of(fmt::format("/proc/{}", process));
  return usage ? std::optional(usage->own_cpu_ns) : std::nullopt;
}

std::vector<pid_t> process_tree(pid_t process) {
  std::vector<pid_t> processes{process};
  for (const pid_t orphan : orphans_of(process)) processes.push_back(orphan);
  add_descendants(processes);
  return processes;
}

std::optional<std::int64_t> process_and_waited_ns(pid_t process) {
  const auto usage = usage_of(fmt::format("/proc/{}", process));
  const auto own_ns = process_cpu_ns(process);  // finer than ticks
  if (!usage || !own_ns) return std::nullopt;
  return *own_ns + usage->cpu_ns - usage->own_cpu_ns;
}

std::optional<std::int64_t> tree_processor_time_ns(pid_t process) {
  std::int64_t sum = 0;
  for (const pid_t one : process_tree(process)) {
    const auto ns = process_and_waited_ns(one);
    if (one == process && !ns) return std::nullopt;
    sum += ns.value_or(0);  // it ended in the meantime
  }
  return sum;
}

std::optional<std::int64_t> tree_waited_ns(pid_t process) {
  std::optional<std::int64_t> sum = process_waited_ns(std::to_string(process));
  for (const pid_t one : sum ? process_tree(process) : std::vector<pid_t>())
    if (one != process) *sum += process_waited_ns(std::to_string(one)).value_or(0);
  return sum;
}

bool is_stopped(pid_t process) {
  const std::string status = status_of(process);
  const char state = *after(status, "\nState:\t");
  return state == 'T' || state == 't';
}

bool catches(pid_t process, int signal) {
  const std::string status = status_of(process);
  return (std::strtoull(after(status, "\nSigCgt:\t"), nullptr, 16) >> (signal - 1) & 1) != 0;
}

ResidentBytes resident_bytes(pid_t process) {
  const std::string status = status_of(process);
  return {bytes_after(status, "\nVmRSS:"), bytes_after(status, "\nVmHWM:")};
}

void forget_peak_of(pid_t process) {
  const int file = ::open(fmt::format("/proc/{}/clear_refs", process).c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(file, "5", 1);  // proc_pid_clear_refs(5)
  ::close(file);
}

namespace {

// The first processors on which the process may run: each costs a file to read.
std::vector<int> processors_of(pid_t process) {
  constexpr std::size_t max_read = 8;
  std::vector<int> processors;
  cpu_set_t set;
  if (::sched_getaffinity(process, sizeof set, &set) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE && processors.size() < max_read; ++i)
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  return processors;
}

}  // namespace

double mean_frequency(std::span<const int> processors, const std::string& folder) {
  double sum = 0;
  for (const int one : processors) {
    const std::string text = read_small(fmt::format("{}/cpu{}/cpufreq/scaling_cur_freq", folder, one));
    const double frequency = 1000.0 * std::strtod(text.c_str(), nullptr);
    if (frequency <= 0) return 0;
    sum += frequency;
  }
  return processors.empty() ? 0 : sum / static_cast<double>(processors.size());
}

std::optional<MachineSample> WorkerSampler::sample(pid_t process) {
  MachineSample sample;
  sample.processes = 0;
  std::int64_t cpu_ns = 0;
  processes_ = process_tree(process);
  for (const pid_t one : processes_) {
    const auto usage = usage_of("/proc/" + std::to_string(one));
    if (one == process) is_stopped_ = usage && (usage->state == 'T' || usage->state == 't');
    if (!usage && one == process) return std::nullopt;
    if (!usage) continue;  // it ended in the meantime
    cpu_ns += usage->cpu_ns;
    sample.worker_rss += usage->resident;
    ++sample.processes;
  }
  sample.time_ns = now_ns();
  peak_rss_ = std::max(peak_rss_, sample.worker_rss);
  sample.frequency_hz = mean_frequency(processors_of(process));
  const bool first = last_time_ns_ == 0;
  if (first || sample.time_ns - last_time_ns_ >= min_rate_ns) {
    // The time of a child that nobody waits for is lost: the sum may fall, but the rate must not be negative.
    if (!first)
      last_rate_ = static_cast<double>(std::max<std::int64_t>(0, cpu_ns - last_cpu_ns_)) /
                   static_cast<double>(sample.time_ns - last_time_ns_);
    last_time_ns_ = sample.time_ns;
    last_cpu_ns_ = cpu_ns;
  }
  sample.worker_cpu = last_rate_.value_or(0);
  return first ? std::nullopt : std::optional(sample);
}

}  // namespace assay

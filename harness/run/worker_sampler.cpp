#include "harness/run/worker_sampler.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "harness/measure/clock.hpp"

namespace assay {
namespace {

std::string read_small(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[4096];
  const ssize_t count = ::read(file, text, sizeof text);
  ::close(file);
  return {text, static_cast<std::size_t>(count > 0 ? count : 0)};
}

}  // namespace

std::optional<MachineSample> WorkerSampler::sample(pid_t process) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  const std::string stat = read_small(path);
  // The command may hold spaces and parentheses: fields are counted from behind it.
  const std::size_t command_end = stat.rfind(')');
  if (command_end == std::string::npos) return std::nullopt;
  unsigned long user = 0, system = 0;
  long resident_pages = 0;
  if (std::sscanf(stat.c_str() + command_end + 2,
                  "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %*u %*u %ld",
                  &user, &system, &resident_pages) != 3) {
    return std::nullopt;
  }
  static const std::int64_t tick_ns = 1'000'000'000 / ::sysconf(_SC_CLK_TCK);
  static const std::int64_t page_bytes = ::sysconf(_SC_PAGESIZE);
  const std::int64_t cpu_ns = static_cast<std::int64_t>(user + system) * tick_ns;
  MachineSample sample;
  sample.time_ns = now_ns();
  sample.worker_rss = resident_pages * page_bytes;
  const std::string frequency = read_small("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq");
  sample.frequency_hz = 1000.0 * std::strtod(frequency.c_str(), nullptr);
  const bool first = last_time_ns_ == 0;
  if (!first) {
    sample.worker_cpu =
        static_cast<double>(cpu_ns - last_cpu_ns_) / static_cast<double>(sample.time_ns - last_time_ns_);
  }
  last_time_ns_ = sample.time_ns;
  last_cpu_ns_ = cpu_ns;
  return first ? std::nullopt : std::optional(sample);
}

}  // namespace assay

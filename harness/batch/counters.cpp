#include "harness/batch/counters.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "harness/core/process_tree.hpp"

namespace assay {
namespace {

constexpr std::size_t bytes_of_processor = 160;  // "cpu12 " and ten numbers

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::int64_t nanoseconds(const timeval& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + std::int64_t{time.tv_usec} * 1000;
}

}  // namespace

CounterReader::CounterReader(const std::filesystem::path& stat)
    : stat_(::open(stat.c_str(), O_RDONLY | O_CLOEXEC)) {
  const long ticks = ::sysconf(_SC_CLK_TCK);
  tick_ns_ = ticks > 0 ? 1'000'000'000 / ticks : 0;
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) allowed_.push_back(CPU_ISSET(cpu, &set));
  const long configured = ::sysconf(_SC_NPROCESSORS_CONF);
  text_.resize(bytes_of_processor * static_cast<std::size_t>(configured > 0 ? configured + 1 : 2));
  Counters first;
  add_processors(first);
}

// Lines such as "cpu3 user nice system idle iowait irq softirq steal ...".
void CounterReader::add_processors(Counters& counters) {
  processors_ = 0;
  if (!stat_) return;
  const ssize_t size = ::pread(stat_.get(), text_.data(), text_.size(), 0);
  std::string_view left(text_.data(), static_cast<std::size_t>(size > 0 ? size : 0));
  for (std::size_t end = 0; (end = left.find('\n')) != left.npos; left.remove_prefix(end + 1)) {
    std::string_view line = left.substr(0, end);
    if (!line.starts_with("cpu")) break;
    line.remove_prefix(3);
    std::size_t processor = 0;
    const auto number = std::from_chars(line.data(), line.data() + line.size(), processor);
    if (number.ec != std::errc() || processor >= allowed_.size() || !allowed_[processor]) continue;
    std::int64_t fields[8] = {};
    const char* at = number.ptr;
    std::size_t read = 0;
    for (; read < std::size(fields); ++read) {
      while (at < line.data() + line.size() && *at == ' ') ++at;
      const auto field = std::from_chars(at, line.data() + line.size(), fields[read]);
      if (field.ec != std::errc()) break;
      at = field.ptr;
    }
    if (read < std::size(fields)) continue;
    ++processors_;
    counters.idle_ns += (fields[3] + fields[4]) * tick_ns_;
    counters.steal_ns += fields[7] * tick_ns_;
  }
}

Counters CounterReader::read() {
  Counters counters;
  add_processors(counters);
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  counters.involuntary_switches = usage.ru_nivcsw;
  counters.minor_faults = usage.ru_minflt;
  counters.major_faults = usage.ru_majflt;
  timespec cpu = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  counters.cpu_ns = nanoseconds(cpu);
  return counters;
}

std::int64_t children_cpu_ns() {
  rusage waited = {};
  ::getrusage(RUSAGE_CHILDREN, &waited);
  std::int64_t sum = nanoseconds(waited.ru_utime) + nanoseconds(waited.ru_stime);
  std::vector<pid_t> children;
  add_children("self", children);
  for (std::size_t i = 0; i < children.size(); ++i) {
    clockid_t clock = {};
    timespec time = {};
    if (::clock_getcpuclockid(children[i], &clock) == 0 && ::clock_gettime(clock, &time) == 0)
      sum += nanoseconds(time);
    add_children(std::to_string(children[i]), children);
  }
  return sum;
}

}  // namespace assay

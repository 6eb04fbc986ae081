#include "harness/batch/counters.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace assay {
namespace {

constexpr std::size_t bytes_of_processor = 160;  // "cpu12 " and ten numbers
constexpr std::size_t max_children = 4096;       // a tree that grows while it is read ends here

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::int64_t nanoseconds(const timeval& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + std::int64_t{time.tv_usec} * 1000;
}

// Each thread of a process lists the children that it started.
void add_children(const std::string& process, std::vector<pid_t>& children) {
  const std::string tasks = "/proc/" + process + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(tasks.c_str()), &::closedir);
  if (!open) return;
  while (const dirent* thread = ::readdir(open.get())) {
    if (thread->d_name[0] == '.') continue;
    const Descriptor file(::open((tasks + "/" + thread->d_name + "/children").c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) continue;
    char text[4096];
    const ssize_t size = ::read(file.get(), text, sizeof text - 1);
    text[size > 0 ? size : 0] = '\0';
    const char* at = text;
    for (char* end = nullptr; children.size() < max_children; at = end) {
      const long child = std::strtol(at, &end, 10);
      if (end == at) break;
      children.push_back(static_cast<pid_t>(child));
    }
  }
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

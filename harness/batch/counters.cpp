#include "harness/batch/counters.hpp"

#include <sys/resource.h>
#include <time.h>

#include <string>
#include <vector>

#include "harness/core/process_tree.hpp"

namespace assay {
namespace {

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::int64_t nanoseconds(const timeval& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + std::int64_t{time.tv_usec} * 1000;
}

}  // namespace

CounterReader::CounterReader() : processors_(allowed_processors()) { read(); }

Counters CounterReader::read() {
  Counters counters;
  counters.processors = processors_.read();
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
    sum += process_cpu_ns(children[i]).value_or(0);
    add_children(std::to_string(children[i]), children);
  }
  return sum;
}

}  // namespace assay

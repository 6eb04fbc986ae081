#include "harness/batch/counters.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

namespace assay {

CounterReader::CounterReader() : stat_(::open("/proc/stat", O_RDONLY | O_CLOEXEC)) {
  const long ticks = ::sysconf(_SC_CLK_TCK);
  tick_ns_ = ticks > 0 ? 1'000'000'000 / ticks : 0;
}

Counters CounterReader::read() const {
  Counters counters;
  if (stat_) {
    char line[256];
    const ssize_t size = ::pread(stat_.get(), line, sizeof line - 1, 0);
    line[size > 0 ? size : 0] = '\0';
    long long steal = 0;  // the eighth number of the first line
    if (std::sscanf(line, "cpu %*d %*d %*d %*d %*d %*d %*d %lld", &steal) == 1)
      counters.steal_ns = steal * tick_ns_;
  }
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  counters.involuntary_switches = usage.ru_nivcsw;
  counters.major_faults = usage.ru_majflt;
  timespec cpu = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  counters.cpu_ns = std::int64_t{cpu.tv_sec} * 1'000'000'000 + cpu.tv_nsec;
  return counters;
}

}  // namespace assay

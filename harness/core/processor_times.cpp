#include "harness/core/processor_times.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <iterator>
#include <string_view>
#include <system_error>

namespace assay {
namespace {

constexpr std::size_t bytes_of_processor = 160;  // "cpu12 " and ten numbers

}  // namespace

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  std::vector<int> processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) processors.push_back(cpu);
  return processors;
}

ProcessorTimesReader::ProcessorTimesReader(std::span<const int> processors, const std::filesystem::path& stat)
    : stat_(::open(stat.c_str(), O_RDONLY | O_CLOEXEC)), read_(CPU_SETSIZE) {
  const long ticks = ::sysconf(_SC_CLK_TCK);
  tick_ns_ = ticks > 0 ? 1'000'000'000 / ticks : 0;
  for (const int processor : processors)
    if (processor >= 0 && processor < CPU_SETSIZE) read_[static_cast<std::size_t>(processor)] = true;
  const long configured = ::sysconf(_SC_NPROCESSORS_CONF);
  text_.resize(bytes_of_processor * static_cast<std::size_t>(configured > 0 ? configured + 1 : 2));
}

// Lines such as "cpu3 user nice system idle iowait irq softirq steal ...".
ProcessorTimes ProcessorTimesReader::read() {
  ProcessorTimes times;
  if (!stat_) return times;
  const ssize_t size = ::pread(stat_.get(), text_.data(), text_.size(), 0);
  std::string_view left(text_.data(), static_cast<std::size_t>(size > 0 ? size : 0));
  for (std::size_t end = 0; (end = left.find('\n')) != left.npos; left.remove_prefix(end + 1)) {
    std::string_view line = left.substr(0, end);
    if (!line.starts_with("cpu")) break;
    line.remove_prefix(3);
    std::size_t processor = 0;
    const auto number = std::from_chars(line.data(), line.data() + line.size(), processor);
    if (number.ec != std::errc() || processor >= read_.size() || !read_[processor]) continue;
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
    ++times.count;
    times.idle_ns += (fields[3] + fields[4]) * tick_ns_;
    times.steal_ns += fields[7] * tick_ns_;
  }
  return times;
}

}  // namespace assay

#include "harness/core/process_tree.hpp"

#include <dirent.h>
#include <time.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

namespace assay {
namespace {

constexpr std::size_t max_processes = 4096;

std::string children_of_thread(const std::string& folder) {
  std::ifstream file(folder + "/children");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

// Each thread of a process lists the children that it started.
void add_children(const std::string& process, std::vector<pid_t>& processes) {
  const std::string threads = "/proc/" + process + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(threads.c_str()), &::closedir);
  if (!open) return;
  while (const dirent* thread = ::readdir(open.get())) {
    if (thread->d_name[0] == '.') continue;
    const std::string list = children_of_thread(threads + "/" + thread->d_name);
    const char* at = list.c_str();
    for (char* end = nullptr; processes.size() < max_processes; at = end) {
      const long child = std::strtol(at, &end, 10);
      if (end == at) break;
      processes.push_back(static_cast<pid_t>(child));
    }
  }
}

// Each file has three numbers: time on a processor, time waiting for one, and turns.
std::optional<std::int64_t> process_waited_ns(const std::string& process) {
  const std::string threads = "/proc/" + process + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(threads.c_str()), &::closedir);
  if (!open) return std::nullopt;
  std::optional<std::int64_t> sum;
  while (const dirent* thread = ::readdir(open.get())) {
    if (thread->d_name[0] == '.') continue;
    std::ifstream file(threads + "/" + thread->d_name + "/schedstat");
    if (std::int64_t ran = 0, waited = 0; file >> ran >> waited) sum = sum.value_or(0) + waited;
  }
  return sum;
}

std::optional<std::int64_t> process_cpu_ns(pid_t process) {
  clockid_t clock = {};
  timespec time = {};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return std::nullopt;
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace assay

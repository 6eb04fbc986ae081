#include "harness/conductor/process/other_processes.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "harness/conductor/process/worker_sampler.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// The kernel's number of the first process namespace (PROC_PID_INIT_INO), in which all processes are seen.
constexpr const char* first_namespace = "pid:[4026531836]";

bool sees_all_processes() {
  std::error_code error;
  return fs::read_symlink("/proc/self/ns/pid", error) == first_namespace && process_and_waited_ns(1);
}

}  // namespace

std::optional<ProcessTimes> times_of_others(pid_t worker) {
  static const bool all = sees_all_processes();
  if (!all) return std::nullopt;
  const std::vector<pid_t> tree = process_tree(worker);
  const std::set<pid_t> own(tree.begin(), tree.end());
  ProcessTimes times;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t process = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), process);
    if (read.ec != std::errc() || read.ptr != name.data() + name.size() || own.contains(process)) continue;
    if (const auto ns = process_and_waited_ns(process)) times[process] = *ns;
  }
  return error ? std::nullopt : std::optional(std::move(times));
}

std::int64_t used_by_others(const ProcessTimes& before, const ProcessTimes& after) {
  std::int64_t sum = 0;
  for (const auto& [process, ns] : after) {
    const auto known = before.find(process);
    sum += std::max<std::int64_t>(0, ns - (known == before.end() ? 0 : known->second));
  }
  return sum;
}

}  // namespace assay

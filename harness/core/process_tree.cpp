#include "harness/core/process_tree.hpp"

#include <dirent.h>
#include <sys/wait.h>
#include <time.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <thread>

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

void add_descendants(std::vector<pid_t>& processes) {
  for (std::size_t i = 0; i < processes.size(); ++i) add_children(std::to_string(processes[i]), processes);
}

pid_t parent_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string stat((std::istreambuf_iterator<char>(file)), {});
  // The command may contain spaces and parentheses: the fields after it are the state and the parent.
  const std::size_t command_end = stat.rfind(')');
  int parent = -1;
  if (command_end == std::string::npos ||
      std::sscanf(stat.c_str() + command_end + 1, " %*c %d", &parent) != 1)
    return -1;
  return parent;
}

bool end_children(const std::function<bool(pid_t)>& is_wanted, std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds pause{500};
  const auto until = Clock::now() + patience;
  std::set<pid_t> killed;
  for (;;) {
    std::vector<pid_t> processes;
    add_children("self", processes);
    // What was killed has no environment any more by which it could be known.
    std::erase_if(processes, [&](pid_t child) { return !killed.contains(child) && !is_wanted(child); });
    const std::size_t children = processes.size();
    if (children == 0) return true;
    add_descendants(processes);
    // The youngest first: it is the one that may start another process.
    bool found_another = false;
    for (auto process = processes.rbegin(); process != processes.rend(); ++process) {
      ::kill(*process, SIGKILL);
      found_another = killed.insert(*process).second || found_another;
    }
    for (std::size_t i = 0; i < children; ++i)
      if (::waitpid(processes[i], nullptr, WNOHANG) == processes[i]) killed.erase(processes[i]);
    if (Clock::now() > until) return false;
    // What was killed needs time to end. A process that starts others without pause is followed without pause.
    if (!found_another) std::this_thread::sleep_for(pause);
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

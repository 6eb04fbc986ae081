#include "harness/conductor/process/survivors.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "harness/core/process_tree.hpp"

namespace assay {
namespace {

std::mutex mutex;
std::map<pid_t, std::string> workers;  // running workers with their folders
int watchdog = -1;                     // write end of the watchdog's pipe; -1 without a guard

bool is_of(pid_t process, std::string_view folder) {
  std::ifstream file(fmt::format("/proc/{}/environ", process));
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  const std::string wanted = fmt::format("{}={}", folder_variable, folder);
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\0', begin), all.size());
    if (std::string_view(all).substr(begin, end - begin) == wanted) return true;
    begin = end + 1;
  }
  return false;
}

// All processes of this machine.
std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t process = 0;
    const auto [rest, failed] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (failed == std::errc() && rest == name.data() + name.size()) found.push_back(process);
  }
  return found;
}

// The watchdog: reads lines "+<worker> <folder>" and "-<worker>" until the program ends.
[[noreturn]] void watch(int lines) {
  ::setsid();
  ::prctl(PR_SET_NAME, "assay-watchdog");
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
  const int null = ::open("/dev/null", O_RDWR);
  for (const int number : {0, 1, 2}) ::dup2(null, number);
  ::dup2(lines, 3);
  ::close_range(4, ~0U, 0);
  std::map<pid_t, std::string> left;
  std::string text;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t count = ::read(3, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(count));
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.erase(0, end + 1)) {
      pid_t worker = 0;
      const auto number = std::from_chars(text.data() + 1, text.data() + end, worker);
      if (text[0] == '-')
        left.erase(worker);
      else if (number.ptr < text.data() + end)
        left[worker] = std::string(number.ptr + 1, static_cast<const char*>(text.data() + end));
    }
  }
  for (const auto& [worker, folder] : left) ::kill(-worker, SIGKILL);
  // Twice: a process that was just being started is in the second list.
  for (int pass = 0; pass < 2 && !left.empty(); ++pass)
    for (const pid_t process : all_processes())
      for (const auto& [worker, folder] : left)
        if (process != ::getpid() && is_of(process, folder)) ::kill(process, SIGKILL);
  ::_exit(0);
}

void notify_watchdog(const std::string& line) {
  if (watchdog >= 0) [[maybe_unused]]
    const ssize_t ignored = ::write(watchdog, line.data(), line.size());
}

// Kills and reaps the leftover children of this program; returns whether there were any.
bool kill_orphans(const std::string& folder) {
  std::vector<pid_t> children;
  add_children("self", children);
  bool any = false;
  for (const pid_t child : children) {
    if (workers.contains(child)) continue;
    if (!workers.empty() && !is_of(child, folder)) continue;
    ::kill(child, SIGKILL);
    any = ::waitpid(child, nullptr, 0) == child || any;
  }
  return any;
}

}  // namespace

SurvivorGuard::SurvivorGuard() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "[watchdog] pipe2");
  const std::lock_guard lock(mutex);
  // Forks twice, so that the watchdog is not a child of this program: its children are workers.
  const pid_t between = ::fork();
  if (between < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    throw std::system_error(error, std::generic_category(), "[watchdog] fork");
  }
  if (between == 0) {
    const pid_t watcher = ::fork();
    if (watcher == 0) watch(ends[0]);
    ::_exit(watcher < 0 ? errno : 0);
  }
  int status = 0;
  while (::waitpid(between, &status, 0) < 0 && errno == EINTR) {
  }
  ::close(ends[0]);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    ::close(ends[1]);
    throw std::system_error(WEXITSTATUS(status), std::generic_category(), "[watchdog] fork");
  }
  watchdog = ends[1];
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

SurvivorGuard::~SurvivorGuard() {
  const std::lock_guard lock(mutex);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::close(watchdog);  // the watchdog ends
  watchdog = -1;
}

pid_t fork_worker(const std::filesystem::path& folder) {
  // Under the lock, so that a worker that is just being started is not mistaken for an orphan.
  const std::string kept = folder.string();
  const std::lock_guard lock(mutex);
  const pid_t worker = ::fork();
  if (worker > 0) {
    workers[worker] = kept;
    notify_watchdog(fmt::format("+{} {}\n", worker, kept));
  }
  return worker;
}

void adopt_worker(pid_t worker, const std::filesystem::path& folder) {
  const std::lock_guard lock(mutex);
  workers[worker] = folder.string();
  notify_watchdog(fmt::format("+{} {}\n", worker, folder.string()));
}

void end_survivors(pid_t worker) {
  if (worker <= 1) return;  // no worker: kill() would take it for another process, or for all of them
  ::kill(-worker, SIGKILL);
  const std::lock_guard lock(mutex);
  const auto found = workers.find(worker);
  if (found == workers.end()) return;
  const std::string folder = found->second;
  workers.erase(found);
  // The children of a killed orphan become children of this process.
  constexpr int max_generations = 64;
  for (int i = 0; watchdog >= 0 && i < max_generations && kill_orphans(folder); ++i) {
  }
  notify_watchdog(fmt::format("-{}\n", worker));
}

}  // namespace assay

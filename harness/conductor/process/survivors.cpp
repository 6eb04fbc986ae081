#include "harness/conductor/process/survivors.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "harness/core/process_tree.hpp"

namespace assay {
namespace {

// For the processes that a worker left behind to end.
constexpr std::chrono::seconds survivor_patience{10};

std::mutex mutex;
std::map<pid_t, std::string> workers;  // running workers with their folders
std::set<pid_t>
    earlier_children;    // of this program before the guard: a shell that became this program may have some
int watchdog = -1;       // write end of the watchdog's pipe; -1 without a guard
pid_t own_watchdog = 0;  // the watchdog if it is a child of this program

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

constexpr const char* watchdog_name = "assay-watchdog";

// Of a program that a worker started, such as assay-rank below a launcher: it must outlive that one, and ends by itself.
bool is_watchdog(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/comm", process));
  std::string name;
  return std::getline(file, name) && name == watchdog_name;
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

// The watchdog: reads texts "+<worker> <folder>" and "-<worker>", each with a zero at its end, until the program ends.
[[noreturn]] void watch(int lines) {
  ::setsid();
  ::prctl(PR_SET_NAME, watchdog_name);
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
    for (std::size_t end; (end = text.find('\0')) != text.npos; text.erase(0, end + 1)) {
      pid_t worker = 0;
      const auto number = std::from_chars(text.data() + 1, text.data() + end, worker);
      if (text[0] == '-')
        left.erase(worker);
      else if (number.ptr < text.data() + end)
        left[worker] = std::string(number.ptr + 1, static_cast<const char*>(text.data() + end));
    }
  }
  for (const auto& [worker, folder] : left) ::kill(-worker, SIGKILL);
  // At least twice, because a process that was just being started is in the second list, and until there are none.
  const auto until = std::chrono::steady_clock::now() + survivor_patience;
  bool any = !left.empty();
  for (int pass = 0; (pass < 2 || any) && std::chrono::steady_clock::now() < until && !left.empty(); ++pass) {
    any = false;
    for (const pid_t process : all_processes())
      for (const auto& [worker, folder] : left)
        if (process != ::getpid() && is_of(process, folder) && !is_watchdog(process) &&
            ::kill(process, SIGKILL) == 0)
          any = true;
  }
  ::_exit(0);
}

void notify_watchdog(const std::string& text) {
  if (watchdog >= 0) [[maybe_unused]]
    const ssize_t ignored = ::write(watchdog, text.c_str(), text.size() + 1);
}

std::set<pid_t> own_children() {
  std::vector<pid_t> children;
  add_children("self", children);
  return {children.begin(), children.end()};
}

// Whether a child of this program is what a worker with that folder left behind. If no worker runs, all children are.
// With the mutex locked.
bool is_orphan_of(pid_t child, const std::string& folder) {
  return !workers.contains(child) && !earlier_children.contains(child) &&
         (workers.empty() || is_of(child, folder));
}

bool is_of_any(pid_t child) {
  return std::ranges::any_of(workers, [child](const auto& worker) { return is_of(child, worker.second); });
}

}  // namespace

SurvivorGuard::SurvivorGuard() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "[watchdog] pipe2");
  const std::lock_guard lock(mutex);
  earlier_children = own_children();
  // Forks twice, so that the watchdog is not a child of this program: its children are workers. It still becomes one if
  // this program is the first process of a container, or was a subreaper before.
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
  own_watchdog = 0;
  for (const pid_t child : own_children())
    if (earlier_children.insert(child).second) own_watchdog = child;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

SurvivorGuard::~SurvivorGuard() {
  const std::lock_guard lock(mutex);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::close(watchdog);  // the watchdog ends
  watchdog = -1;
  if (own_watchdog <= 0) return;
  ::kill(own_watchdog, SIGKILL);
  ::waitpid(own_watchdog, nullptr, 0);
}

pid_t fork_worker(const std::filesystem::path& folder) {
  // Under the lock, so that a worker that is just being started is not mistaken for an orphan.
  const std::string kept = folder.string();
  const std::lock_guard lock(mutex);
  const pid_t worker = ::fork();
  if (worker > 0) {
    workers[worker] = kept;
    notify_watchdog(fmt::format("+{} {}", worker, kept));
  }
  return worker;
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
  if (watchdog >= 0)
    end_children([&folder](pid_t child) { return is_orphan_of(child, folder); }, survivor_patience);
  notify_watchdog(fmt::format("-{}", worker));
}

std::vector<pid_t> orphans_of(pid_t worker) {
  const std::lock_guard lock(mutex);
  const auto own = workers.find(worker);
  if (watchdog < 0 || own == workers.end()) return {};
  std::vector<pid_t> found;
  add_children("self", found);
  const bool is_first = own == workers.begin();
  std::erase_if(found, [&](pid_t child) {
    if (workers.contains(child) || earlier_children.contains(child)) return true;
    return !is_of(child, own->second) && (!is_first || is_of_any(child));
  });
  return found;
}

}  // namespace assay

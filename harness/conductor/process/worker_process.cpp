#include "harness/conductor/process/worker_process.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/process/survivors.hpp"
#include "harness/conductor/process/worker_sampler.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/launch/passed_variables.hpp"

namespace assay {
std::string to_string(const WorkerExit& exit) {
  if (exit.is_lost) return "ended, and its exit status was lost";
  if (exit.signal == 0) return fmt::format("exited with code {}", exit.code);
  const char* name = ::sigabbrev_np(exit.signal);
  return fmt::format("died of SIG{} ({})", name ? name : std::to_string(exit.signal),
                     ::strsignal(exit.signal));
}

WorkerProcess::WorkerProcess(const WorkerStart& start) {
  std::error_code ignored;  // the worker says what it misses
  for (const std::filesystem::path& folder : start.folders)
    std::filesystem::create_directories(folder, ignored);
  Pipe commands = make_pipe(), events = make_pipe(), log = make_pipe();
  std::vector<std::string> argument_texts = start.command;
  argument_texts.push_back(start.cell_folder.string());
  std::map<std::string, std::string> variables = start.environment;
  variables[folder_variable] = start.cell_folder.string();
  ConfinementRules rules(start.confinement);
  log_ = std::make_unique<WorkerLog>(log.read.release(), start.cell_folder / "log");
  channel_ = std::make_unique<protocol::Channel>(events.read.release(), commands.write.release());
  const StartedChild child = start_child({.command = std::move(argument_texts),
                                          .environment = std::move(variables),
                                          .reaches = start.launched ? reaches_launcher : reaches_worker,
                                          .folder = start.cell_folder.string(),
                                          .cores = start.cores,
                                          .rules = rules.descriptor(),
                                          .commands = commands.read.get(),
                                          .events = events.write.get(),
                                          .log = log.write.get()},
                                         [&] { return fork_worker(start.cell_folder); });
  pid_ = child.process;
  if (child.error != 0) {
    exit_ = WorkerExit{127, 0, 0, 0};
    end_survivors(pid_);
    throw std::system_error(child.error, std::generic_category(), start.command.front());
  }
  ending_ = Descriptor(open_process(pid_));
}

void WorkerProcess::signal(int number) {
  if (pid_ > 0) ::kill(-pid_, number);
}

void WorkerProcess::print_stacks() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds patience{500};
  constexpr int quiet_ms = 100;  // after its last line
  if (ended() || !catches(pid(), SIGUSR1)) return;
  ::kill(pid(), SIGUSR1);
  const auto until = Clock::now() + patience;
  const std::uint64_t before = log_->total();
  while (Clock::now() < until && !ended()) {
    pollfd log{log_->descriptor(), POLLIN, 0};
    if (::poll(&log, 1, quiet_ms) <= 0 && log_->total() > before) return;
    log_->drain();
  }
}

WorkerProcess::~WorkerProcess() {
  if (!exit_) wait_or_kill(std::chrono::milliseconds(0));
}

std::optional<WorkerExit> WorkerProcess::ended() {
  if (exit_) return exit_;
  exit_ = reap(pid_);
  if (!exit_) return std::nullopt;
  ending_.reset();
  end_survivors(pid_);
  log_->drain();
  return exit_;
}

WorkerExit WorkerProcess::wait_or_kill(std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  const auto terminate_at = Clock::now() + patience;
  const auto kill_at = terminate_at + std::chrono::seconds(1);
  bool terminated = false;
  for (;;) {
    if (ended()) {
      exit_->outlasted = exit_->outlasted || (terminated && exit_->signal != 0);
      return *exit_;
    }
    const auto now = Clock::now();
    if (now >= kill_at) {
      signal(SIGKILL);
    } else if (now >= terminate_at && !terminated) {
      terminated = true;
      signal(SIGTERM);
      signal(SIGCONT);
    }
    pollfd log{log_->descriptor(), POLLIN, 0};
    ::poll(&log, 1, 5);
    log_->drain();
  }
}

namespace {

// Texts that common allocators print when memory runs out.
constexpr std::string_view exhaustion[] = {
    "std::bad_alloc", "MemoryError",        "out of memory",          "Out of memory",
    "OutOfMemory",    "RESOURCE_EXHAUSTED", "Cannot allocate memory", "cannot allocate memory"};

// Texts of the system, and of Python, if no thread or process can be started.
constexpr std::string_view no_process[] = {"Resource temporarily unavailable", "can't start new thread"};

bool contains_one_of(std::string_view text, std::span<const std::string_view> phrases) {
  return std::ranges::any_of(phrases,
                             [&](std::string_view phrase) { return text.find(phrase) != text.npos; });
}

// The limit of CPU time that the worker reached, in seconds; nothing if that is not how it ended. The kernel sends SIGXCPU
// at the soft limit and SIGKILL at the hard one.
std::optional<double> reached_cpu_limit(const WorkerExit& exit) {
  constexpr double slack_seconds = 1;  // the kernel compares whole seconds
  rlimit limit{};
  if (::getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const bool was_killed =
      exit.signal == SIGKILL && exit.cpu_seconds >= static_cast<double>(limit.rlim_cur) - slack_seconds;
  if (exit.signal != SIGXCPU && !was_killed) return std::nullopt;
  const bool is_hard = was_killed && limit.rlim_max != RLIM_INFINITY;
  return static_cast<double>(is_hard ? limit.rlim_max : limit.rlim_cur);
}

}  // namespace

bool speaks_of_process_limit(std::string_view text) { return contains_one_of(text, no_process); }

std::string last_line_of(std::string_view log) {
  while (!log.empty() && (log.back() == '\n' || log.back() == ' ')) log.remove_suffix(1);
  const std::size_t newline = log.rfind('\n');
  if (newline != std::string_view::npos) log.remove_prefix(newline + 1);
  constexpr std::size_t most = 300;
  std::size_t end = std::min(log.size(), most);
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(log[at]) & 0xc0) == 0x80; };
  while (end > 0 && end < log.size() && continues(end)) --end;  // no part of a character
  return std::string(log.substr(0, end));
}

std::int64_t oom_kills() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  std::int64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

WorkerEnding explain_death(const WorkerExit& exit, std::string_view doing, std::string_view log,
                           bool oom_struck) {
  const std::string what = fmt::format("the worker {} {}", to_string(exit), doing);
  const std::string said = last_line_of(log);
  const std::string quote = said.empty() ? "" : fmt::format("; last line of its log: {}", said);
  if (exit.signal == SIGKILL && oom_struck) {
    return {ReasonCode::killed_out_of_memory,
            what + "; the kernel's out-of-memory killer was active at that time"};
  }
  if (const auto limit = reached_cpu_limit(exit)) {
    return {
        ReasonCode::place_limit,
        fmt::format(
            "{}: it reached the limit of CPU time of this place (ulimit -t {:.0f}); raise it: ulimit -t unlimited",
            what, *limit)};
  }
  if ((exit.signal == SIGABRT || exit.code != 0) && speaks_of_process_limit(log)) {
    return {ReasonCode::place_limit, fmt::format("{}{}; {}", what, quote, remedy_for_processes())};
  }
  if ((exit.signal == SIGABRT || exit.code != 0) && contains_one_of(log, exhaustion)) {
    return {ReasonCode::worker_out_of_memory, what + quote + remedy_for_memory()};
  }
  if (exit.signal == SIGKILL || exit.signal == SIGTERM) {
    return {ReasonCode::killed_from_outside, what + ": killed from outside" + quote};
  }
  if (exit.signal != 0) return {ReasonCode::killed_by_signal, what + quote};
  return {ReasonCode::worker_exited, what + quote};
}

}  // namespace assay

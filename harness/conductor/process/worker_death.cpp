#include "harness/conductor/process/worker_death.hpp"

#include <csignal>
#include <fstream>

#include <fmt/format.h>

namespace assay {
namespace {

// What the usual allocators print when they have no more.
constexpr std::string_view exhaustion[] = {"std::bad_alloc",        "MemoryError", "out of memory",
                                           "Out of memory",         "OutOfMemory", "RESOURCE_EXHAUSTED",
                                           "Cannot allocate memory"};

bool speaks_of_exhaustion(std::string_view log) {
  for (const std::string_view phrase : exhaustion) {
    if (log.find(phrase) != std::string_view::npos) return true;
  }
  return false;
}

// The last line with something on it: most runtimes put the cause there.
std::string last_line(std::string_view log) {
  while (!log.empty() && (log.back() == '\n' || log.back() == ' ')) log.remove_suffix(1);
  const std::size_t newline = log.rfind('\n');
  if (newline != std::string_view::npos) log.remove_prefix(newline + 1);
  return std::string(log.substr(0, 300));
}

}  // namespace

std::int64_t oom_kills() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  std::int64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

Verdict explain_death(const WorkerExit& exit, std::string_view doing, std::string_view log, bool oom_struck) {
  const std::string what = fmt::format("the worker {} {}", to_string(exit), doing);
  const std::string said = last_line(log);
  const std::string quote = said.empty() ? "" : fmt::format("; its last words: {}", said);
  if (exit.signal == SIGKILL && oom_struck) {
    return {Status::out_of_memory, what + "; the kernel's out-of-memory killer struck meanwhile"};
  }
  if ((exit.signal == SIGABRT || exit.code != 0) && speaks_of_exhaustion(log)) {
    return {Status::out_of_memory, what + quote};
  }
  if (exit.signal == SIGKILL || exit.signal == SIGTERM) {
    return {Status::crashed, what + ": killed from outside" + quote};
  }
  if (exit.signal != 0) return {Status::crashed, what + quote};
  return {Status::failed, what + quote};
}

}  // namespace assay

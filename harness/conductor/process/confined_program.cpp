#include "harness/conductor/process/confined_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <system_error>

#include "harness/conductor/process/confinement.hpp"
#include "harness/conductor/process/survivors.hpp"
#include "harness/launch/passed_variables.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

Descriptor above_those_of_children(int descriptor, const char* what) {
  Descriptor high(::fcntl(descriptor, F_DUPFD_CLOEXEC, 10));
  if (!high) throw std::system_error(errno, std::generic_category(), what);
  return high;
}

// Its end: the reason is in the last lines.
std::string end_of(int file) {
  constexpr off_t shown = 8192;
  const off_t size = ::lseek(file, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::min(size, shown)), '\0');
  const ssize_t count = ::pread(file, text.data(), text.size(), std::max<off_t>(0, size - shown));
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return text;
}

// False if it still runs at the deadline, or when the user interrupts this program.
bool has_ended_by(int process, Clock::time_point deadline, const Interrupts& interrupts) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::array waited{pollfd{process, POLLIN, 0}, pollfd{interrupts.descriptor(), POLLIN, 0}};
    if (::poll(waited.data(), waited.size(), static_cast<int>(left)) > 0) return waited[0].revents != 0;
  }
}

}  // namespace

ConfinedEnd run_confined(const ConfinedProgram& program, const Interrupts& interrupts) {
  const Confinement confinement{
      .unreadable = {}, .unwritable = {"/"}, .own = {program.folder, "/dev/null"}, .connects = false};
  const ConfinementRules rules(confinement);
  const Descriptor memory(::memfd_create("errors", MFD_CLOEXEC));
  const Descriptor errors = above_those_of_children(memory.get(), "[program] errors");
  const Descriptor output = above_those_of_children(STDOUT_FILENO, "[program] standard output");
  const auto seconds = static_cast<std::uint64_t>(program.patience.count());
  const StartedChild child = start_child({.command = program.command,
                                          .environment = program.environment,
                                          .reaches = &reaches_worker,
                                          .folder = program.folder.string(),
                                          .rules = rules.descriptor(),
                                          .log = output.get(),
                                          .errors = errors.get(),
                                          .limits = {{RLIMIT_AS, program.memory_bytes},
                                                     {RLIMIT_FSIZE, program.file_bytes},
                                                     {RLIMIT_CPU, seconds}}},
                                         [] { return ::fork(); });
  if (child.error != 0)
    throw std::system_error(child.error, std::generic_category(), program.command.front());
  const Descriptor process(open_process(child.process));
  ConfinedEnd end;
  const bool ended = has_ended_by(process.get(), Clock::now() + program.patience, interrupts);
  end.timed_out = !ended && interrupts.signal() == 0;
  if (!ended) ::kill(-child.process, SIGKILL);
  std::optional<WorkerExit> exit;
  while (!(exit = reap(child.process))) {
    pollfd waited{process.get(), POLLIN, 0};
    ::poll(&waited, 1, 100);
  }
  end_survivors(child.process);
  end.signal = interrupts.signal();
  end.exit = *exit;
  end.errors = end_of(errors.get());
  return end;
}

}  // namespace assay

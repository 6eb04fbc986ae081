#include "harness/launch/child.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <system_error>
#include <utility>

#include "harness/core/error.hpp"
#include "harness/core/paths.hpp"

namespace assay {

std::optional<WorkerExit> reap(pid_t child) {
  int status = 0;
  rusage usage{};
  const pid_t got = ::wait4(child, &status, WNOHANG, &usage);
  WorkerExit exit;
  if (got < 0 && errno == ECHILD) {
    exit.is_lost = true;
    return exit;
  }
  if (got != child) return std::nullopt;
  if (WIFSIGNALED(status)) {
    exit.signal = WTERMSIG(status);
  } else {
    exit.code = WEXITSTATUS(status);
  }
  exit.peak_rss = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  exit.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  return exit;
}

namespace {

// Async-signal-safe.
void unblock_signals() {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

void undo_inherited_signals() {
  ::signal(SIGCHLD, SIG_DFL);
  unblock_signals();
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "[worker] pipe2");
  Descriptor high[2];
  for (int i = 0; i < 2; ++i) {
    high[i] = Descriptor(::fcntl(ends[i], F_DUPFD_CLOEXEC, 10));
    ::close(ends[i]);
  }
  if (!high[0] || !high[1])
    throw std::system_error(errno, std::generic_category(), "[worker] no descriptors are left");
  return {std::move(high[0]), std::move(high[1])};
}

namespace {

std::vector<std::string> environment_of(const ChildStart& start) {
  std::vector<std::string> result;
  std::map<std::string, std::string> variables = start.environment;
  for (auto& [name, value] : environment_variables())
    if (!start.reaches || start.reaches(name)) variables.try_emplace(name, std::move(value));
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

#if defined(__x86_64__)
constexpr std::uint32_t own_architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t own_architecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t own_architecture = 0;  // not known: nothing is filtered
#endif

// From here on this process and its children may change limits only of themselves (0) or of this process: Landlock does
// not know prlimit(2). As far as the kernel allows; async-signal-safe. A system call that the filter always allows costs a
// few nanoseconds (Linux 5.11), and SPEC_ALLOW keeps kernels before 5.16 from slowing down speculation.
void keep_limits_of_others() {
  if (own_architecture == 0) return;
  // The lower half of an argument; the upper one follows (both architectures are little-endian).
  const auto half = [](std::size_t argument, std::size_t upper = 0) {
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t) +
                                      upper * sizeof(std::uint32_t));
  };
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own_architecture, 0, 10),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 8),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, half(0)),  // of which process
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 6, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(::getpid()), 5, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, half(2)),  // the new limit; null: it is only read
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, half(2, 1)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
  ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
}

// Confines this process and its children permanently to a Landlock rule set; async-signal-safe. -1: no rules.
// False with errno set if the kernel refuses.
bool confine_by(int rules) {
  if (rules < 0) return true;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::syscall(SYS_landlock_restrict_self, rules, 0) != 0)
    return false;
  keep_limits_of_others();
  return true;
}

// Data for the child, made before fork(): between fork and exec only async-signal-safe calls are allowed.
struct ChildPlan {
  char* const* arguments;
  char* const* environment;
  const char* folder;
  const cpu_set_t* cores;  // null: inherited
  int rules, input, commands, events, log, errors;
  const std::pair<int, std::uint64_t>* limits;
  std::size_t limit_count;
  int failure;  // gets errno if exec() fails
  pid_t parent;
};

[[noreturn]] void run_child(const ChildPlan& plan) {
  const auto fail = [&] {
    const int error = errno;
    [[maybe_unused]] const ssize_t ignored = ::write(plan.failure, &error, sizeof error);
    ::_exit(127);
  };
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);  // it died before prctl
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  unblock_signals();
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const bool talks = plan.commands >= 0;
  if (::dup2(plan.input, 0) < 0 || ::dup2(plan.log, 1) < 0 || ::dup2(plan.errors, 2) < 0 ||
      (talks && (::dup2(plan.commands, 3) < 0 || ::dup2(plan.events, 4) < 0)) || ::chdir(plan.folder) < 0) {
    fail();
  }
  // Closes all other descriptors, also inherited ones: a hanging worker would keep their locks after our end.
  ::close_range(talks ? 5 : 3, ~0U, CLOSE_RANGE_CLOEXEC);
  if (plan.cores) ::sched_setaffinity(0, sizeof *plan.cores, plan.cores);
  if (!confine_by(plan.rules)) fail();
  for (std::size_t i = 0; i < plan.limit_count; ++i) {
    const rlimit limit{plan.limits[i].second, plan.limits[i].second};
    if (::setrlimit(static_cast<__rlimit_resource_t>(plan.limits[i].first), &limit) != 0) fail();
  }
  ::execvpe(plan.arguments[0], plan.arguments, plan.environment);
  fail();
  ::_exit(127);
}

}  // namespace

StartedChild start_child(ChildStart start, const std::function<pid_t()>& fork) {
  Pipe failure = make_pipe();
  const Descriptor opened(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!opened) throw IoError("worker", "/dev/null", "cannot be opened; mount /dev", errno);
  const Descriptor null(::fcntl(opened.get(), F_DUPFD_CLOEXEC, 10));  // above those that the child replaces
  if (!null) throw std::system_error(errno, std::generic_category(), "[worker] /dev/null");
  std::vector<std::string> variables = environment_of(start);
  const std::vector<char*> arguments = pointers_to(start.command);
  const std::vector<char*> environment = pointers_to(variables);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : start.cores) CPU_SET(static_cast<unsigned>(core), &cores);
  const ChildPlan plan{.arguments = arguments.data(),
                       .environment = environment.data(),
                       .folder = start.folder.c_str(),
                       .cores = start.cores.empty() ? nullptr : &cores,
                       .rules = start.rules,
                       .input = null.get(),
                       .commands = start.commands,
                       .events = start.events,
                       .log = start.log,
                       .errors = start.errors >= 0 ? start.errors : start.log,
                       .limits = start.limits.data(),
                       .limit_count = start.limits.size(),
                       .failure = failure.write.get(),
                       .parent = ::getpid()};
  StartedChild started{.process = fork()};
  if (started.process < 0) throw std::system_error(errno, std::generic_category(), "[worker] fork");
  if (started.process == 0) run_child(plan);
  ::setpgid(started.process, started.process);  // parent and child both call it, because either may run first
  failure.write.reset();
  ssize_t count;
  while ((count = ::read(failure.read.get(), &started.error, sizeof started.error)) < 0 && errno == EINTR) {
  }
  if (count <= 0) return started;
  while (::waitpid(started.process, nullptr, 0) < 0 && errno == EINTR) {
  }
  return started;
}

// glibc 2.36 declares pidfd_open() without extern "C".
int open_process(pid_t process) { return static_cast<int>(::syscall(SYS_pidfd_open, process, 0)); }

}  // namespace assay

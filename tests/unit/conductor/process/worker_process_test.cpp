#include "harness/conductor/process/worker_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/process/interrupts.hpp"
#include "harness/conductor/process/survivors.hpp"
#include "harness/core/error.hpp"
#include "harness/launch/passed_variables.hpp"

namespace assay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// For what ends by itself: on a busy machine, too.
constexpr seconds patience{60};

// A zombie that is not reaped yet has also ended.
bool dead_soon(pid_t process) {
  for (int i = 0; i < 6000; ++i) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    const std::string text((std::istreambuf_iterator<char>(status)), {});
    if (text.empty() || text.find("State:\tZ") != std::string::npos) return true;
    ::usleep(10'000);
  }
  return false;
}

class WorkerProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Its own for each test: the watchdog of a test before may still end what runs in that one's folder.
    folder_ = fs::temp_directory_path() / ("assay_worker_" + std::to_string(::getpid()) + "_" +
                                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  WorkerStart script(const std::string& text) { return {{"/bin/sh", "-c", text}, folder_, {}, {}}; }
  protocol::Deadline soon() { return steady_clock::now() + patience; }

  fs::path folder_;
};

TEST_F(WorkerProcessTest, speaks_on_three_and_four_in_the_cell_folder) {
  WorkerProcess worker(script("read line <&3; echo \"$line from $(pwd)\" >&4; echo \"$0\" >&4"));
  ASSERT_EQ(worker.channel().write_line("hello"), protocol::Writing::done);
  EXPECT_EQ(worker.channel().read_line(soon()).text, "hello from " + folder_.string());
  EXPECT_EQ(worker.channel().read_line(soon()).text, folder_.string());
  EXPECT_EQ(worker.wait_or_kill(patience).code, 0);
}

TEST_F(WorkerProcessTest, ReachesWhatItIsJudgedByOnlyWhereThatIsItsOwn) {
  if (!can_confine()) GTEST_SKIP() << "this kernel has no Landlock";
  const fs::path hidden = folder_ / "run", own = hidden / "cell", cache = folder_ / "cache";
  for (const fs::path& folder : {own, hidden / "exams", cache}) fs::create_directories(folder);
  for (const fs::path& file : {hidden / "exams/answers", cache / "data"}) std::ofstream(file) << "kept";
  WorkerStart start = script(
      "cat ../exams/answers; echo x > ../exams/answers; mkdir ../other; cat ../../cache/data > mine; "
      "echo x >> ../../cache/data; rm ../../cache/data; mv ../../cache ../../c; echo x > ../exams/new; "
      "ln ../exams/answers link; rm -r ../exams; sh -c 'cat ../exams/answers > mine2'; cat mine >&4");
  start.cell_folder = own;
  start.confinement = {.unreadable = {hidden}, .unwritable = {hidden, cache}, .own = {own}};
  WorkerProcess worker(start);
  EXPECT_EQ(worker.channel().read_line(soon()).text, "kept");
  worker.wait_or_kill(patience);
  std::ifstream answers(hidden / "exams/answers");
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(answers)), {}), "kept");
  EXPECT_EQ(std::distance(fs::directory_iterator(hidden), {}), 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(hidden / "exams"), {}), 1);
  EXPECT_EQ(fs::file_size(cache / "data"), 4U);
  EXPECT_TRUE(fs::is_empty(own / "mine2"));
  EXPECT_FALSE(fs::exists(own / "link"));
}

TEST_F(WorkerProcessTest, ReadsWhatItMustNotChangeAndChangesWhatItMustNotRead) {
  if (!can_confine()) GTEST_SKIP() << "this kernel has no Landlock";
  const fs::path cache = folder_ / "cache", drop = folder_ / "drop/in", free = folder_ / "drop/free";
  for (const fs::path& folder : {cache / "oracle", drop, free}) fs::create_directories(folder);
  for (const fs::path& file : {cache / "data", cache / "oracle/answers", folder_ / "given", drop / "old"})
    std::ofstream(file) << "kept\n";
  WorkerStart start = script(
      "cat cache/data given >&4; cat cache/oracle/answers drop/in/old > read; echo x > cache/data; echo x > given; "
      "echo x > cache/new; echo new > drop/in/old; echo new > drop/free/new; cat drop/free/new >&4");
  start.confinement = {
      .unreadable = {cache / "oracle", drop}, .unwritable = {cache, folder_ / "given"}, .own = {}};
  std::ofstream(folder_ / "read");
  WorkerProcess worker(start);
  for (const char* line : {"kept", "kept", "new"}) EXPECT_EQ(worker.channel().read_line(soon()).text, line);
  worker.wait_or_kill(patience);
  EXPECT_EQ(fs::file_size(cache / "data"), 5U);
  EXPECT_EQ(fs::file_size(folder_ / "given"), 5U);
  EXPECT_FALSE(fs::exists(cache / "new"));
  EXPECT_EQ(fs::file_size(drop / "old"), 4U) << "it may write what it cannot read";
  EXPECT_EQ(fs::file_size(folder_ / "read"), 0U);
}

TEST_F(WorkerProcessTest, says_how_it_ended) {
  EXPECT_EQ(to_string(WorkerProcess(script("exit 3")).wait_or_kill(patience)), "exited with code 3");
  EXPECT_THAT(to_string(WorkerProcess(script("kill -SEGV $$")).wait_or_kill(patience)), HasSubstr("SIGSEGV"));
}

TEST_F(WorkerProcessTest, is_killed_with_its_children_when_it_hangs) {
  const auto begin = steady_clock::now();
  WorkerProcess worker(script("trap '' TERM; sleep 100 & echo $! >&4; wait; sleep 100"));
  const pid_t child = std::stoi(worker.channel().read_line(soon()).text);
  EXPECT_EQ(worker.wait_or_kill(milliseconds(50)).signal, SIGKILL);
  EXPECT_LT(steady_clock::now() - begin, patience) << "its commands sleep 200 s";
  EXPECT_TRUE(dead_soon(child)) << "its child lives on";
}

TEST_F(WorkerProcessTest, a_flood_on_stderr_neither_blocks_it_nor_fills_the_disk) {
  WorkerProcess worker(script("head -c 50000000 /dev/zero | tr '\\0' 'x' >&2; echo the end >&2"));
  EXPECT_EQ(worker.wait_or_kill(patience).code, 0);
  EXPECT_THAT(worker.log().tail(100), HasSubstr("the end"));
  worker.log().finish();
  EXPECT_LT(fs::file_size(folder_ / "log"), WorkerLog::head_bytes + WorkerLog::tail_bytes + 1000);
  EXPECT_GT(worker.log().total(), 50'000'000U);
}

TEST_F(WorkerProcessTest, environment_and_affinity_arrive) {
  WorkerStart start = script("echo $OMP_NUM_THREADS; grep Cpus_allowed_list /proc/self/status");
  start.environment = {{"OMP_NUM_THREADS", "7"}};
  start.cores = {0};
  WorkerProcess worker(start);
  worker.wait_or_kill(patience);
  EXPECT_EQ(worker.log().tail(), "7\nCpus_allowed_list:\t0\n");
}

TEST_F(WorkerProcessTest, GetsOfTheCallersVariablesOnlyPlacesAndLanguage) {
  ::setenv("OMP_THREAD_LIMIT", "1", 1);
  ::setenv("PYTHONPATH", "/mine", 1);
  ::setenv("LC_NUMERIC", "C", 1);
  WorkerStart start =
      script("echo $OMP_THREAD_LIMIT $PYTHONPATH $LC_NUMERIC $NAMED; [ -n \"$PATH\" ] || echo none");
  start.environment = {{"NAMED", "given"}};
  WorkerProcess worker(start);
  worker.wait_or_kill(patience);
  for (const char* name : {"OMP_THREAD_LIMIT", "PYTHONPATH", "LC_NUMERIC"}) ::unsetenv(name);
  EXPECT_EQ(worker.log().tail(), "C given\n");
}

TEST(PassedVariables, LauncherGetsThoseOfMpiAndSlurm) {
  for (const char* name : {"OMPI_MCA_btl", "PMIX_RANK", "SLURM_JOB_ID", "UCX_TLS"}) {
    EXPECT_TRUE(reaches_launcher(name)) << name;
    EXPECT_FALSE(reaches_worker(name)) << name;
  }
  for (const char* name : {"PATH", "LC_ALL", "ASSAY_CACHE", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"})
    EXPECT_TRUE(reaches_worker(name) && reaches_launcher(name)) << name;
  for (const char* name :
       {"LD_PRELOAD", "OMP_PLACES", "PYTHONHOME", "XLA_FLAGS", "TORCHDYNAMO_DISABLE", "CXX"})
    EXPECT_FALSE(reaches_worker(name) || reaches_launcher(name)) << name;
}

TEST_F(WorkerProcessTest, inherits_no_descriptor_but_its_own) {
  const int leak = ::open("/dev/null", O_RDONLY);  // not close-on-exec
  WorkerProcess worker(script("ls /proc/self/fd"));
  worker.wait_or_kill(patience);
  ::close(leak);
  // 0 to 4, and the folder that ls has open.
  EXPECT_EQ(worker.log().tail(), "0\n1\n2\n3\n4\n5\n");
}

// The dispositions and the mask of this process, until the object is destroyed.
class OtherSignals {
 public:
  OtherSignals() {
    for (std::size_t i = 0; i < changed.size(); ++i) before_[i] = std::signal(changed[i], SIG_IGN);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &blocked, &mask_);
  }
  ~OtherSignals() {
    for (std::size_t i = 0; i < changed.size(); ++i) std::signal(changed[i], before_[i]);
    ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
  }

 private:
  static constexpr std::array changed = {SIGCHLD, SIGHUP, SIGPIPE, SIGUSR2};
  std::array<void (*)(int), changed.size()> before_{};
  sigset_t mask_{};
};

bool is_ignored(int signal) {
  struct sigaction present{};
  ::sigaction(signal, nullptr, &present);
  return present.sa_handler == SIG_IGN;
}

TEST_F(WorkerProcessTest, IgnoresAndBlocksNoSignalOfItsParent) {
  const OtherSignals signals;
  WorkerProcess worker(script("grep -E 'Sig(Blk|Ign)' /proc/self/status"));
  worker.wait_or_kill(patience);
  EXPECT_EQ(worker.log().tail(), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_F(WorkerProcessTest, HasEndedIfItsStatusIsLost) {
  const OtherSignals signals;  // the kernel discards the statuses of children
  WorkerProcess worker(script("exit 3"));
  const WorkerExit exit = worker.wait_or_kill(patience);
  EXPECT_TRUE(exit.is_lost);
  EXPECT_FALSE(exit.outlasted);
  EXPECT_EQ(to_string(exit), "ended, and its exit status was lost");
}

TEST(InheritedSignals, AreUndoneExceptThoseThatNohupIgnores) {
  const OtherSignals signals;
  undo_inherited_signals();
  EXPECT_FALSE(is_ignored(SIGCHLD));
  EXPECT_TRUE(is_ignored(SIGHUP));
  sigset_t mask;
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGTERM));
}

TEST_F(WorkerProcessTest, distinguishes_a_missing_program_from_a_failing_one) {
  try {
    WorkerProcess worker({{"/no/such/worker"}, folder_, {}, {}});
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
  }
}

TEST_F(WorkerProcessTest, dies_when_the_conductor_is_killed) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t conductor = ::fork();
  if (conductor == 0) {
    WorkerProcess worker(script("exec sleep 100"));
    const pid_t pid = worker.pid();
    if (::write(ends[1], &pid, sizeof pid) < 0) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  pid_t worker = 0;
  ASSERT_EQ(::read(ends[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ::kill(conductor, SIGKILL);
  ::waitpid(conductor, nullptr, 0);
  EXPECT_TRUE(dead_soon(worker));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(WorkerProcessTest, its_log_is_valid_utf8_for_any_bytes) {
  WorkerProcess worker(script("printf 'a\\377b\\303\\244\\001c\\n'"));
  worker.wait_or_kill(patience);
  EXPECT_EQ(worker.log().tail(), "a?b\xC3\xA4?c\n");
}

// In its own session, which writes its number.
constexpr const char* leaves_a_session =
    "setsid sh -c 'echo $$ > left; exec sleep 1000' & while [ ! -s left ]; do :; done";

pid_t number_in(const fs::path& file) {
  pid_t number = 0;
  std::ifstream(file) >> number;
  return number;
}

// Starts a worker that leaves a session behind, and is killed.
void die_after_starting(const WorkerStart& start) {
  WorkerProcess worker(start);
  while (number_in(start.cell_folder / "left") == 0) ::usleep(1000);
  std::raise(SIGKILL);
}

void expect_nothing_of_a_killed_program(const WorkerStart& start) {
  const pid_t program = ::fork();
  if (program == 0) {
    const SurvivorGuard guard;
    die_after_starting(start);
  }
  ::waitpid(program, nullptr, 0);
  const pid_t left = number_in(start.cell_folder / "left");
  ASSERT_GT(left, 0);
  EXPECT_TRUE(dead_soon(left));
}

TEST_F(WorkerProcessTest, leaves_no_session_while_a_guard_lives) {
  const SurvivorGuard guard;
  {
    WorkerProcess worker(script(leaves_a_session));
    EXPECT_EQ(worker.wait_or_kill(patience).code, 0);
  }
  const pid_t left = number_in(folder_ / "left");
  ASSERT_GT(left, 0);
  EXPECT_TRUE(dead_soon(left));
}

TEST_F(WorkerProcessTest, is_gone_with_its_children_when_this_program_is_killed) {
  expect_nothing_of_a_killed_program(script(std::string(leaves_a_session) + "; sleep 1000"));
}

// The first process of a container gets the watchdog as a child, like a subreaper.
TEST_F(WorkerProcessTest, WatchesWhereTheWatchdogIsItsChild) {
  const pid_t program = ::fork();
  if (program == 0) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const SurvivorGuard guard;
    {
      WorkerProcess worker(script("read line <&3"));
      if (!orphans_of(worker.pid()).empty()) ::_exit(1);
    }
    die_after_starting(script(std::string(leaves_a_session) + "; sleep 1000"));
  }
  int status = 0;
  ::waitpid(program, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the watchdog counts as a process that the worker left behind";
  const pid_t left = number_in(folder_ / "left");
  ASSERT_GT(left, 0);
  EXPECT_TRUE(dead_soon(left)) << "the watchdog was killed with the first worker";
}

TEST_F(WorkerProcessTest, WatchesAFolderWithALineFeedInItsName) {
  folder_ /= "a\nb";
  fs::create_directories(folder_);
  expect_nothing_of_a_killed_program(script(std::string(leaves_a_session) + "; sleep 1000"));
  folder_ = folder_.parent_path();
}

TEST_F(WorkerProcessTest, KnowsWhatAWorkerLeftBehind) {
  const SurvivorGuard guard;
  WorkerProcess worker(script(
      "(setsid sh -c 'echo $$ > left; exec sleep 1000' &); while [ ! -s left ]; do :; done; read line <&3"));
  while (number_in(folder_ / "left") == 0) ::usleep(1000);
  std::vector<pid_t> orphans;
  for (int i = 0; i < 6000 && orphans.size() != 1; ++i) {  // the process between them may not have ended
    ::usleep(10'000);
    orphans = orphans_of(worker.pid());
  }
  EXPECT_EQ(orphans, std::vector<pid_t>{number_in(folder_ / "left")});
}

TEST_F(WorkerProcessTest, SendsSignalsOnlyToItself) {
  if (!can_confine_signals()) GTEST_SKIP() << "this kernel cannot confine signals";
  const pid_t other = ::fork();
  if (other == 0) {
    ::pause();
    ::_exit(0);
  }
  WorkerStart start =
      script("kill -KILL " + std::to_string(other) + " || echo denied; sleep 100 & kill $! && echo allowed");
  fs::create_directories(folder_ / "hidden");
  start.confinement = {.unreadable = {folder_ / "hidden"}, .unwritable = {}, .own = {}};
  WorkerProcess worker(start);
  worker.wait_or_kill(patience);
  EXPECT_THAT(worker.log().tail(), HasSubstr("denied\nallowed"));
  EXPECT_EQ(::waitpid(other, nullptr, WNOHANG), 0) << "it lives";
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST_F(WorkerProcessTest, ChangesLimitsOnlyOfItself) {
  if (!can_confine()) GTEST_SKIP() << "this kernel has no Landlock";
  const std::string other = std::to_string(::getpid());
  WorkerStart start =
      script("prlimit --pid " + other + " --core=0 || echo denied; prlimit --pid " + other +
             " --core > /dev/null && echo read; ulimit -c 0 && prlimit --pid $$ --core=0 && echo own");
  fs::create_directories(folder_ / "hidden");
  start.confinement = {.unreadable = {folder_ / "hidden"}, .unwritable = {}, .own = {}};
  WorkerProcess worker(start);
  worker.wait_or_kill(patience);
  EXPECT_THAT(worker.log().tail(), HasSubstr("denied\nread\nown"));
}

TEST(StartChild, NamesTheLimitOfProcesses) {
  const auto no_process = [] {
    errno = EAGAIN;
    return pid_t{-1};
  };
  try {
    start_child({.command = {"/bin/true"}, .environment = {}, .reaches = nullptr, .folder = "/"}, no_process);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_TRUE(is_limit_of_processes(error));
    EXPECT_THAT(message_of(error), HasSubstr("ulimit -u"));
  }
}

// Sets the soft limit of CPU time of this process.
class CpuLimit {
 public:
  explicit CpuLimit(rlim_t soft) {
    ::getrlimit(RLIMIT_CPU, &before_);
    rlimit limit = before_;
    limit.rlim_cur = soft;
    ::setrlimit(RLIMIT_CPU, &limit);
  }
  ~CpuLimit() { ::setrlimit(RLIMIT_CPU, &before_); }
  CpuLimit(const CpuLimit&) = delete;
  CpuLimit& operator=(const CpuLimit&) = delete;

 private:
  rlimit before_{};
};

ReasonCode code_of_death(const WorkerExit& exit, std::string_view log = "") {
  return explain_death(exit, "during run", log, false).code;
}

TEST(ExplainDeath, NamesTheLimitOfCpuTime) {
  const WorkerExit killed{.signal = SIGKILL, .cpu_seconds = 999'999.5},
      short_lived{.signal = SIGKILL, .cpu_seconds = 5};
  EXPECT_EQ(code_of_death(killed), ReasonCode::killed_from_outside) << "no limit";
  const CpuLimit limit(1'000'000);
  EXPECT_EQ(code_of_death(killed), ReasonCode::place_limit);
  EXPECT_EQ(code_of_death({.signal = SIGXCPU}), ReasonCode::place_limit);
  EXPECT_EQ(code_of_death(short_lived), ReasonCode::killed_from_outside);
  EXPECT_THAT(explain_death(killed, "during run", "", false).reason, HasSubstr("ulimit -t"));
}

// In a process of its own, because a hard limit cannot be raised again.
TEST(ExplainDeath, NamesTheLimitThatWasReached) {
  const auto reason_with = [](rlim_t soft, rlim_t hard, const WorkerExit& exit) {
    const rlimit limit{soft, hard};
    ::setrlimit(RLIMIT_CPU, &limit);
    std::cerr << explain_death(exit, "during run", "", false).reason;
    std::exit(0);
  };
  EXPECT_EXIT(reason_with(1'000'000, 2'000'000, {.signal = SIGXCPU}), ::testing::ExitedWithCode(0),
              "ulimit -t 1000000\\)");
  EXPECT_EXIT(reason_with(1'000'000, 2'000'000, {.signal = SIGKILL, .cpu_seconds = 2e6}),
              ::testing::ExitedWithCode(0), "ulimit -t 2000000\\)");
}

TEST(ExplainDeath, KnowsTheLinkerThatGetsNoMemory) {
  EXPECT_EQ(code_of_death({.code = 127}, "cannot allocate memory for thread-local data: ABORT\n"),
            ReasonCode::worker_out_of_memory);
}

TEST(ExplainDeath, NamesTheLimitOfProcesses) {
  const WorkerExit aborted{.signal = SIGABRT}, failed{.code = 1};
  EXPECT_EQ(code_of_death(failed, "libgomp: Thread creation failed: Resource temporarily unavailable\n"),
            ReasonCode::place_limit);
  EXPECT_EQ(code_of_death(aborted, "RuntimeError: can't start new thread\n"), ReasonCode::place_limit);
  EXPECT_EQ(code_of_death(failed, "no such luck\n"), ReasonCode::worker_exited);
}

TEST(Interrupts, leaves_a_signal_that_was_ignored_ignored) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    const Interrupts interrupts;
    std::raise(SIGHUP);
    EXPECT_EQ(interrupts.signal(), 0);
    std::raise(SIGTERM);
    EXPECT_EQ(interrupts.signal(), SIGTERM);
  }
  EXPECT_EQ(std::signal(SIGHUP, before), SIG_IGN);
  std::signal(SIGTERM, SIG_DFL);
}

void interrupt_while_measuring_then_later(int later) {
  {
    const Interrupts interrupts;
    std::raise(SIGINT);
  }
  for (int i = 0; i < later; ++i) std::raise(SIGINT);
  std::_Exit(4);
}

TEST(Interrupts, second_signal_changes_nothing_while_the_program_ends) {
  EXPECT_EXIT(interrupt_while_measuring_then_later(1), testing::ExitedWithCode(4), "");
}

TEST(Interrupts, third_signal_ends_the_program_at_once) {
  EXPECT_EXIT(interrupt_while_measuring_then_later(2), testing::ExitedWithCode(128 + SIGINT), "");
}

}  // namespace
}  // namespace assay

// Ranks that a launcher starts: the same conversations and the same rows as without one, and nothing stays.
// The launcher is a shell here, which starts assay-rank with its number, as mpirun does.
#include "harness/conductor/process/launch.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/process/team.hpp"
#include "tests/faults/rank_faults.hpp"

namespace assay {
namespace {

using protocol::Command;
using protocol::Verb;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

constexpr const char* starts_all = "for r in $(seq 0 $((WORLD - 1))); do RANK=$r \"$@\" & done; wait";

class LaunchTest : public test::RankFaults {
 protected:
  // script: of the shell that is the launcher; its arguments are the command of a rank.
  LaunchPlan launch(std::size_t world, const std::string& script = starts_all) const {
    return {.name = "sh",
            .command = {"sh", "-c", script, "launcher", RANK_PROGRAM, socket().string(), "RANK"},
            .environment = {{"WORLD", std::to_string(world)}},
            .folder = folder_.path(),
            .socket = socket(),
            .world = static_cast<int>(world)};
  }
  fs::path socket() const { return folder_ / "socket"; }

  ConversationResult talk(const std::vector<std::string>& modes, double seconds = 20,
                          const std::string& script = starts_all) {
    Team team(plans(modes, seconds), {}, launch(modes.size(), script));
    return talk_with(team);
  }
  // No worker, launcher or assay-rank of this test.
  void expect_no_process() {
    expect_no_worker();
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "environ");
      const std::string all((std::istreambuf_iterator<char>(file)), {});
      EXPECT_THAT(all, Not(HasSubstr(folder_.path().string()))) << entry.path();
    }
    EXPECT_FALSE(fs::exists(socket()));
  }
};

TEST_F(LaunchTest, EndsIfTheLauncherIgnoresTheEndOfChildren) {
  const ConversationResult result = talk({"good", "good"}, 20, std::string("trap '' CHLD; ") + starts_all);
  EXPECT_EQ(result.status, Status::ok) << result.reason;
}

TEST_F(LaunchTest, JoinsTheAnswersOfRanksThatBehave) {
  const ConversationResult result = talk({"good", "good", "good"});
  EXPECT_EQ(result.status, Status::ok) << result.reason;
  EXPECT_EQ(result.compiled->memory.at("planned_arena"), 3 * 4096);
  EXPECT_GT(result.start_rss, 0);
  EXPECT_GT(result.exit.peak_rss, 0);
  EXPECT_EQ(processes_.size(), 3u);
  expect_no_process();
}

TEST_F(LaunchTest, GivesARankWhatAChildOfTheConductorGets) {
  std::vector<ConversationPlan> all = plans({"good", "good"});
  for (ConversationPlan& plan : all) {
    plan.worker.cores = {0};
    plan.worker.confinement = {.unreadable = {folder_ / "oracle"}, .unwritable = {}, .own = {}};
  }
  fs::create_directories(folder_ / "oracle");
  all[1].worker.environment["MARK"] = "of rank 1";
  Team team(all, {}, launch(2));
  const auto results = team.converse({Command{Verb::compile}}, Afterwards::stay, {});
  note(results);
  ASSERT_TRUE(joined(results).ok()) << joined(results).reason;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_GT(results[rank].start_rss, 0) << rank;
    const fs::path process = fs::path("/proc") / results[rank].hello->settings.at("process");
    EXPECT_EQ(fs::read_symlink(process / "cwd"), fs::canonical(all[rank].worker.cell_folder));
    EXPECT_TRUE(fs::exists(all[rank].worker.cell_folder / "log"));
    std::ifstream environment(process / "environ");
    const std::string all_variables((std::istreambuf_iterator<char>(environment)), {});
    EXPECT_EQ(all_variables.find("MARK=of rank 1") != std::string::npos, rank == 1);
    std::ifstream status(process / "status");
    const std::string text((std::istreambuf_iterator<char>(status)), {});
    EXPECT_THAT(text, HasSubstr("Cpus_allowed_list:\t0\n"));
    // A process that has entered Landlock's rules cannot gain privileges.
    if (can_confine()) {
      EXPECT_THAT(text, HasSubstr("NoNewPrivs:\t1\n"));
    }
  }
  EXPECT_EQ(team.nodes(), 1);
}

TEST_F(LaunchTest, NamesTheRankThatDied) {
  const ConversationResult result = talk({"hang", "crash"});
  EXPECT_EQ(result.status, Status::crashed);
  EXPECT_EQ(result.reason_code, ReasonCode::killed_by_signal);
  EXPECT_THAT(result.reason, AllOf(StartsWith("rank 1: "), HasSubstr("SIGSEGV"), Not(HasSubstr("rank 0"))));
  EXPECT_THAT(result.log_tail, HasSubstr("about to fall"));
  expect_no_process();
}

TEST_F(LaunchTest, NamesTheRankThatHangs) {
  const ConversationResult result = talk({"good", "hang"}, 1);
  EXPECT_EQ(result.status, Status::timed_out);
  EXPECT_THAT(result.reason, StartsWith("rank 1: no answer during run"));
  expect_no_process();
}

TEST_F(LaunchTest, EndsAllRanksIfTheLauncherDies) {
  const ConversationResult result =
      talk({"hang", "hang"}, 20, "for r in 0 1; do RANK=$r \"$@\" & done; sleep 1; kill -KILL $$");
  EXPECT_EQ(result.reason_code, ReasonCode::launcher_failed);
  EXPECT_THAT(result.reason, HasSubstr("sh died of SIGKILL"));
  expect_no_process();
}

TEST_F(LaunchTest, EndsARankWhoseAssayRankIsKilled) {
  const ConversationResult result =
      talk({"hang", "hang"}, 20, "RANK=0 \"$@\" & RANK=1 \"$@\" & last=$!; sleep 1; kill -KILL $last; wait");
  EXPECT_EQ(result.reason_code, ReasonCode::launcher_failed);
  EXPECT_THAT(result.reason, StartsWith("rank 1: sh ended the rank"));
  expect_no_process();
}

TEST_F(LaunchTest, ReportsALauncherThatStartsNothing) {
  const ConversationResult result = talk({"good", "good"}, 20, "echo no slots are left; exit 3");
  EXPECT_EQ(result.status, Status::failed);
  EXPECT_EQ(result.reason_code, ReasonCode::launcher_failed);
  EXPECT_THAT(result.reason, AllOf(HasSubstr("sh exited with code 3"),
                                   HasSubstr("last line of its log: no slots are left")));
  expect_no_process();
}

// As of an assay-rank that is stopped between connecting and saying which rank it is.
TEST_F(LaunchTest, GoesOnWhileAConnectionIsSilent) {
  {
    const std::string script = fmt::format("while [ ! -e go ]; do sleep 0.01; done; {}", starts_all);
    Team team(plans({"good", "good"}), {}, launch(2, script));
    std::optional<Descriptor> silent;
    for (int i = 0; !silent && i < 1000; ++i) {
      try {
        silent = launch::connect_to(socket());
      } catch (const std::system_error&) {  // nothing listens yet
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    ASSERT_TRUE(silent);
    const std::jthread closes([&](std::stop_token stop) {
      for (int i = 0; i < 1500 && !stop.stop_requested(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      silent->reset();
    });
    std::ofstream(folder_ / "go") << "on";
    const auto begin = std::chrono::steady_clock::now();
    const ConversationResult result = talk_with(team);
    EXPECT_EQ(result.status, Status::ok) << result.reason;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
  expect_no_process();
}

TEST_F(LaunchTest, ReportsALauncherThatStartsTooFew) {
  const ConversationResult result = talk({"good", "good"}, 1, "echo one node is free; RANK=0 \"$@\"");
  EXPECT_EQ(result.status, Status::timed_out);
  EXPECT_THAT(result.reason, AllOf(StartsWith("rank 1: no answer before its hello"),
                                   HasSubstr("sh has not started this rank"),
                                   HasSubstr("last line of its log: one node is free")));
  expect_no_process();
}

TEST_F(LaunchTest, QuotesALauncherThatWaits) {
  const ConversationResult result = talk({"good", "good"}, 1, "echo job 5 is queued; sleep 3");
  EXPECT_EQ(result.status, Status::timed_out);
  EXPECT_EQ(result.reason_code, ReasonCode::time_limit);
  EXPECT_THAT(result.reason, AllOf(StartsWith("ranks 0, 1: no answer before its hello"),
                                   HasSubstr("sh has not started this rank"),
                                   HasSubstr("last line of its log: job 5 is queued")));
  expect_no_process();
}

TEST_F(LaunchTest, DoesNotBlameTheLauncherForAWorkerThatHangs) {
  const ConversationResult result = talk({"good", "hang_at_hello"}, 1);
  EXPECT_EQ(result.status, Status::timed_out);
  EXPECT_THAT(result.reason,
              AllOf(StartsWith("rank 1: no answer before its hello"), Not(HasSubstr("has not started"))));
  expect_no_process();
}

TEST_F(LaunchTest, ReportsALauncherThatStartsARankTwice) {
  const ConversationResult result = talk({"hang", "hang"}, 20, "RANK=0 \"$@\" & RANK=0 \"$@\" & wait");
  EXPECT_EQ(result.reason_code, ReasonCode::launcher_failed);
  EXPECT_THAT(result.reason, HasSubstr("sh started the rank 0"));
  expect_no_process();
}

TEST_F(LaunchTest, ReportsALauncherThatIsNotThere) {
  LaunchPlan plan = launch(2);
  plan.command.front() = "/no/such/launcher";
  Team team(plans({"good", "good"}), {}, plan);
  const ConversationResult result = talk_with(team);
  EXPECT_EQ(result.reason_code, ReasonCode::launcher_failed);
  EXPECT_THAT(result.reason, HasSubstr("cannot start sh: /no/such/launcher"));
}

TEST_F(LaunchTest, ReportsAWorkerThatCannotBeStarted) {
  std::vector<ConversationPlan> all = plans({"hang", "good"});
  all[1].worker.command = {"/no/such/worker"};
  Team team(all, {}, launch(2));
  const ConversationResult result = talk_with(team);
  EXPECT_EQ(result.reason_code, ReasonCode::worker_not_started);
  EXPECT_THAT(result.reason, StartsWith("rank 1: cannot start the worker: No such file"));
}

TEST_F(LaunchTest, ReportsOrdersThatAreTooLong) {
  std::vector<ConversationPlan> all = plans({"hang", "good"});
  all[1].worker.environment["LONG"] = std::string(200'000, 'x');
  Team team(all, {}, launch(2));
  const ConversationResult result = talk_with(team);
  EXPECT_EQ(result.reason_code, ReasonCode::worker_not_started);
  EXPECT_THAT(result.reason,
              AllOf(StartsWith("rank 1: cannot send the worker's command"), HasSubstr("Message too long")));
}

// From here on pidfd_open() fails in this process and its children, as in an old kernel. False if it does not.
bool forbid_pidfd_open() {
  constexpr auto word = offsetof(seccomp_data, nr);
  sock_filter filter[] = {{.code = BPF_LD | BPF_W | BPF_ABS, .jt = 0, .jf = 0, .k = word},
                          {.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = 0, .jf = 1, .k = SYS_pidfd_open},
                          {.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = SECCOMP_RET_ERRNO | ENOSYS},
                          {.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = SECCOMP_RET_ALLOW}};
  const sock_fprog program{.len = static_cast<unsigned short>(std::size(filter)), .filter = filter};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
         ::syscall(SYS_pidfd_open, ::getpid(), 0) < 0;
}

TEST_F(LaunchTest, SeesTheEndOfAWorkerWithoutPidfdOpen) {
  const auto run = [this] {
    if (!forbid_pidfd_open()) std::_Exit(2);
    const ConversationResult result = talk({"good", "good"});
    std::fprintf(stderr, "%s\n", result.reason.c_str());
    std::_Exit(result.ok() ? 0 : 1);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "") << "2: this machine has no seccomp filters";
}

TEST_F(LaunchTest, EndsEverythingThatWasNeverAsked) {
  {
    const Team team(plans({"good", "good"}), {}, launch(2));
  }
  expect_no_process();
}

}  // namespace
}  // namespace assay

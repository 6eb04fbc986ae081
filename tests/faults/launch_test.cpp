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
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
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
  LaunchPlan plan(std::size_t world, const std::string& script = starts_all) const {
    return {.name = "sh",
            .command =
                [script](const std::string& conductor) {
                  return std::vector<std::string>{"sh",      "-c",       script, "launcher", RANK_PROGRAM,
                                                  conductor, own_host(), "/tmp", "RANK"};
                },
            .environment = {{"WORLD", std::to_string(world)}},
            .folder = folder_.path(),
            .world = static_cast<int>(world)};
  }
  // The ranks of a launch that has gathered them.
  static std::unique_ptr<Launch> started(const LaunchPlan& plan) {
    auto launch = std::make_unique<Launch>(plan);
    const auto failure = launch->gather(20, {}, nullptr);
    EXPECT_FALSE(failure) << failure->reason;
    return launch;
  }

  ConversationResult talk(const std::vector<std::string>& modes, double seconds = 20,
                          const std::string& script = starts_all) {
    auto launch = std::make_unique<Launch>(plan(modes.size(), script));
    if (const auto failure = launch->gather(seconds, {}, nullptr)) {
      ConversationResult result;
      end_with(result, failure->code, failure->reason);
      return result;
    }
    Team team(plans(modes, seconds), {}, std::move(launch));
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
  std::unique_ptr<Launch> launch = started(plan(2));
  EXPECT_EQ(launch->hosts(), 1);
  EXPECT_EQ(launch->seat(1).local, 1);
  EXPECT_EQ(launch->seat(1).neighbours, 2);
  Team team(all, {}, std::move(launch));
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
  EXPECT_EQ(result.reason_code, ReasonCode::host_lost);
  EXPECT_THAT(result.reason,
              AllOf(StartsWith("rank 1: the connection broke"), HasSubstr("assay-rank on it has failed")));
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
    std::promise<std::string> told;
    LaunchPlan waits = plan(2, script);
    waits.command = [&told, command = waits.command](const std::string& conductor) {
      told.set_value(conductor);
      return command(conductor);
    };
    auto launch = std::make_unique<Launch>(waits);
    const std::string conductor = told.get_future().get();
    const Descriptor silent = connect_to("127.0.0.1", std::stoi(conductor.substr(conductor.rfind(':') + 1)),
                                         std::chrono::seconds(5));
    ASSERT_TRUE(silent);
    std::ofstream(folder_ / "go") << "on";
    EXPECT_FALSE(launch->gather(20, {}, nullptr));
    Team team(plans({"good", "good"}), {}, std::move(launch));
    const ConversationResult result = talk_with(team);
    EXPECT_EQ(result.status, Status::ok) << result.reason;
  }
  expect_no_process();
}

TEST_F(LaunchTest, ReportsALauncherThatStartsTooFew) {
  const ConversationResult result = talk({"good", "good"}, 1, "echo one node is free; RANK=0 \"$@\"");
  EXPECT_EQ(result.status, Status::timed_out);
  EXPECT_THAT(result.reason, AllOf(StartsWith("rank 1: sh has not started it"), HasSubstr("within 1 s"),
                                   HasSubstr("last line of its log: one node is free")));
  expect_no_process();
}

TEST_F(LaunchTest, QuotesALauncherThatWaits) {
  const ConversationResult result = talk({"good", "good"}, 1, "echo job 5 is queued; sleep 3");
  EXPECT_EQ(result.status, Status::timed_out);
  EXPECT_EQ(result.reason_code, ReasonCode::time_limit);
  EXPECT_THAT(result.reason, AllOf(StartsWith("ranks 0, 1: sh has not started them"),
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
  LaunchPlan missing = plan(2);
  missing.command = [](const std::string&) { return std::vector<std::string>{"/no/such/launcher"}; };
  Launch launch(missing);
  const auto failure = launch.gather(20, {}, nullptr);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, ReasonCode::launcher_failed);
  EXPECT_THAT(failure->reason, HasSubstr("cannot start sh: /no/such/launcher"));
}

TEST_F(LaunchTest, ReportsAWorkerThatCannotBeStarted) {
  std::vector<ConversationPlan> all = plans({"hang", "good"});
  all[1].worker.command = {"/no/such/worker"};
  Team team(all, {}, started(plan(2)));
  const ConversationResult result = talk_with(team);
  EXPECT_EQ(result.reason_code, ReasonCode::worker_not_started);
  EXPECT_THAT(result.reason,
              AllOf(StartsWith("rank 1: cannot start the worker: "), HasSubstr("No such file")));
}

TEST_F(LaunchTest, ReportsAPlanThatCannotBeSent) {
  std::vector<ConversationPlan> all = plans({"hang", "good"});
  all[1].worker.environment["MARK"] = "\xff";
  Team team(all, {}, started(plan(2)));
  const ConversationResult result = talk_with(team);
  EXPECT_EQ(result.reason_code, ReasonCode::files);
  EXPECT_THAT(result.reason, HasSubstr("is not UTF-8"));
}

TEST_F(LaunchTest, TakesNoRankWithoutTheKey) {
  LaunchPlan other =
      plan(2, "export ASSAY_RANK_KEY=0123; for r in 0 1; do RANK=$r \"$@\" & done; wait; sleep 3");
  Launch launch(other);
  const auto failure = launch.gather(1, {}, nullptr);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, ReasonCode::time_limit);
  EXPECT_THAT(failure->reason, HasSubstr("nothing of this run is found"));
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
    const Team team(plans({"good", "good"}), {}, started(plan(2)));
  }
  expect_no_process();
}

}  // namespace
}  // namespace assay

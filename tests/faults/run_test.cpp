// Whole runs with a worker that goes wrong, with one that declares its times, and with a conductor that is
// killed.
#include "harness/conductor/run/run.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/build_info.hpp"
#include "harness/conductor/process/interrupts.hpp"
#include "harness/conductor/run/measurement.hpp"
#include "harness/conductor/run/resume.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/processor_times.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/cores.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/report_json.hpp"
#include "tests/jpeg_file.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
namespace fs = std::filesystem;

class RunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("ASSAY_CACHE", (folder_ / "cache").c_str(), 1);
    registry_ = find_backends_in({FAULT_BACKENDS}, {});
    ASSERT_THAT(registry_.faults, IsEmpty());
  }

  RunRequest request(const std::string& settings) {
    RunRequest made;
    made.config = config_from_json(
        nlohmann::json::parse(R"({"workload": "mlp", "dataset": "synthetic", "backend": "fault", "threads": 1,
      "check": false, "blocks": 3, )" +
                              settings + "}"),
        "test.json");
    made.environment.cpu.model = "a processor";
    made.out = folder_ / "report.json";
    return made;
  }
  Report run_to_end(const RunRequest& request) {
    Progress progress = Progress::quiet();
    Report report = run(request, cells_of(request, registries_), registries_, progress).report;
    EXPECT_THAT(invariant_violations(report), IsEmpty());
    return report;
  }
  // Runs the conductor in a separate process; `after` gets its pid.
  void conduct(const RunRequest& request, const std::function<void(pid_t)>& after) {
    const pid_t conductor = ::fork();
    if (conductor == 0) {
      std::signal(SIGINT, SIG_DFL);  // a command in the background of a script ignores it
      Progress progress = Progress::quiet();
      run(request, cells_of(request, registries_), registries_, progress);
      ::_exit(0);
    }
    after(conductor);
    ::waitpid(conductor, nullptr, 0);
  }
  // Waits until the report has that many forks.
  Report wait_for_forks(std::size_t count) {
    for (int i = 0; i < 6000; ++i) {  // a minute: a sanitizer's build on a busy machine is that slow
      ::usleep(10'000);
      if (!fs::exists(folder_ / "report.json")) continue;
      const Report report = read_report(folder_ / "report.json");
      std::size_t there = 0;
      for (const CellReport& cell : report.cells) there += cell.forks.size();
      if (there >= count) return report;
    }
    ADD_FAILURE() << "the forks did not come";
    return {};
  }

  // Waits until a run has its report.
  void wait_for_lock(const fs::path& report) {
    for (int i = 0; i < 6000 && !fs::exists(report.string() + ".lock"); ++i) ::usleep(10'000);
    ::usleep(100'000);  // it locks the report itself after its lock file
  }
  // The backend "fault" with a script in its folder, which the worker does not use.
  fs::path use_own_backend() {
    const fs::path own = folder_ / "backends/fault";
    fs::create_directories(own);
    fs::copy_file(fs::path(FAULT_BACKENDS) / "fault/backend.json", own / "backend.json");
    std::ofstream(own / "worker.py") << "one = 1\n";
    registry_ = find_backends_in({folder_ / "backends"}, {});
    EXPECT_THAT(registry_.faults, IsEmpty());
    return own;
  }

  // Two classes of ten images.
  fs::path write_images() {
    const fs::path images = folder_ / "data/images";
    for (int i = 0; i < 20; ++i) {
      const fs::path file = images / (i < 10 ? "a" : "b") / fmt::format("{}.jpg", i % 10);
      fs::create_directories(file.parent_path());
      // Nothing is read after the end marker.
      std::ofstream(file) << plain_jpeg(32, 32, static_cast<std::uint8_t>(10 * i), 100, 50) << 'x';
    }
    return images;
  }
  RunRequest images(int forks, const std::string& settings) {
    RunRequest made =
        request(fmt::format(R"("forks": {}, "batch": 4, "image-size": 32, {})", forks, settings));
    made.config.values["workload"] = {"cifar10-cnn"};
    made.config.values["dataset"] = {"images"};
    made.config.values["data"] = {(folder_ / "data").string()};
    return made;
  }

  TemporaryFolder own_folder_;
  const fs::path folder_ = own_folder_.path();
  Registries registries_;
  BackendRegistry& registry_ = registries_.backends;
};

TEST_F(RunTest, every_fault_is_a_row_and_the_run_goes_on) {
  const Report report =
      run_to_end(request(R"("forks": 2, "mode": ["crash", "garbage", "half_line", "out_of_memory",
      "unsupported", "no_clock", "nan_loss", "good", "early_clock", "late_clock"])"));
  ASSERT_EQ(report.cells.size(), 10U);
  const Status expected[] = {Status::crashed,     Status::failed, Status::failed, Status::out_of_memory,
                             Status::unsupported, Status::failed, Status::failed, Status::ok,
                             Status::failed,      Status::failed};
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    const CellReport& cell = report.cells[i];
    EXPECT_EQ(cell.status, expected[i]) << cell.id << ": " << cell.reason;
    EXPECT_EQ(cell.reason.empty(), cell.status == Status::ok) << cell.id;
    EXPECT_THAT(cell.reproduce, HasSubstr("--mode " + cell.axes.mode));
    const bool goes_on = cell.status == Status::ok || cell.status == Status::crashed;
    EXPECT_EQ(cell.forks.size(), goes_on ? 2U : 1U) << "no second fork of what went wrong for sure";
  }
  EXPECT_THAT(report.cells[0].forks[0].log_tail, HasSubstr("about to fall"));
  EXPECT_EQ(report.cells[6].reason_code, ReasonCode::loss_not_finite);
  EXPECT_EQ(report.cells[8].reason_code, ReasonCode::clock_refused);
  EXPECT_EQ(report.cells[9].reason_code, ReasonCode::clock_refused);
  EXPECT_TRUE(report.run.complete);
}

TEST_F(RunTest, AHangIsARowAndTheRunGoesOn) {
  const Report report = run_to_end(request(R"("forks": 2, "time-limit": 0.3, "mode": ["hang", "crash"])"));
  EXPECT_EQ(report.cells.at(0).status, Status::timed_out) << report.cells[0].reason;
  EXPECT_EQ(report.cells[0].forks.size(), 1U) << "no second fork of what went wrong for sure";
  EXPECT_FALSE(report.cells.at(1).forks.empty());
  EXPECT_TRUE(report.run.complete);
}

TEST_F(RunTest, a_clock_file_that_cannot_be_so_is_a_row_with_its_reason) {
  const std::vector<std::string> lies = {
      "overlap",       "no_length",         "thrice",        "no_steps",      "negative_steps",
      "other_kind",    "long_wait",         "negative_wait", "negative_cpu",  "negative_latency",
      "other_split",   "accuracy_of_seven", "incomplete",    "other_schema",  "no_blocks",
      "warm_up_alone", "a_block_less",      "fifo_clock",    "endless_clock", "large_clock",
      "linked_clock",  "huge_steps",        "far_clock",     "endless_block", "negative_times",
      "reversed",      "text_as_time",      "folder_clock",  "sparse_clock",  "empty_clock",
      "many_blocks",   "removes_its_files", "a_tenth",       "hidden_cpu",    "much_cpu"};
  nlohmann::json modes = lies;
  modes.push_back("good");
  const auto begin = std::chrono::steady_clock::now();
  const Report report = run_to_end(request(R"("forks": 1, "mode": )" + modes.dump()));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(5)) << "none is waited for";
  ASSERT_EQ(report.cells.size(), lies.size() + 1);
  for (const CellReport& cell : report.cells) {
    const bool good = cell.axes.mode == "good";
    EXPECT_EQ(cell.status, good ? Status::ok : Status::failed) << cell.id << ": " << cell.reason;
    if (!good) {
      EXPECT_EQ(cell.reason_code, ReasonCode::clock_refused) << cell.id;
    }
  }
}

// Whether the fork has the conductor's record of others: the worker claims that it used no time itself.
bool is_excused(const Fork& fork) {
  return contains(fork.flags, quality_flag::disturbed) && fork.disturbance && fork.disturbance->own_ns > 0;
}

TEST_F(RunTest, EndsAFirstForkWithTheTimeOfTheRun) {
  const auto begin = std::chrono::steady_clock::now();
  const Report report = run_to_end(request(R"("forks": 1, "max-time": "10s", "mode": "hang")"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << "not --time-limit";
  const CellReport& cell = report.cells.at(0);
  EXPECT_EQ(cell.status, Status::interrupted);
  EXPECT_EQ(cell.reason_code, ReasonCode::max_time_spent) << cell.reason;
  EXPECT_EQ(cell.forks.size(), 1U);
}

TEST_F(RunTest, KeepsTheForksOfACellWhoseLaterForkWasCutOff) {
  const Report report =
      run_to_end(request(R"("until": "clear", "max-time": "12s", "mode": ["good", "hangs_in_round_2"])"));
  for (const CellReport& cell : report.cells) EXPECT_EQ(cell.status, Status::ok) << cell.reason;
  EXPECT_EQ(report.cells.at(1).forks.size(), 1U);
}

TEST_F(RunTest, RepeatsAForkWhoseThreadsStarveWithFewerThreads) {
  if (usable_cores().size() < 2) GTEST_SKIP() << "one processor";
  RunRequest made;
  made.config = config_from_json({{"workload", "mlp"},
                                  {"dataset", "synthetic"},
                                  {"backend", "fault"},
                                  {"mode", "starves"},
                                  {"threads", 2},
                                  {"check", false},
                                  {"blocks", 3},
                                  {"forks", 1},
                                  {"spare-rounds", 0},
                                  {"max-time", "60s"}},
                                 "test.json");
  const Report report = run_to_end(made);
  const CellReport& cell = report.cells.at(0);
  ASSERT_EQ(cell.status, Status::ok) << cell.reason;
  ASSERT_EQ(cell.forks.size(), 1U) << "what was given up is no fork";
  EXPECT_TRUE(contains(cell.forks[0].flags, quality_flag::fewer_threads));
  EXPECT_EQ(cell.forks[0].settings.at("fewer_threads"), "1");
  EXPECT_THAT(cell.forks[0].warnings, Contains(HasSubstr("use --threads 1, or stop other work")));
  EXPECT_FALSE(ranked_time(cell));
}

TEST_F(RunTest, AClaimOfOtherProcessesExcusesNothing) {
  const Report report = run_to_end(request(R"("forks": 1, "spare-rounds": 0, "mode": "claims_others")"));
  const CellReport& cell = report.cells.at(0);
  if (cell.status == Status::ok && is_excused(cell.forks.at(0)))
    GTEST_SKIP() << "other processes use the processors";
  EXPECT_EQ(cell.reason_code, ReasonCode::clock_refused);
  EXPECT_THAT(cell.reason, HasSubstr("cover"));
}

TEST_F(RunTest, OtherProcessesExcuseAForkThatDoesNotCount) {
  std::vector<pid_t> others;
  for (const int core : usable_cores()) {
    others.push_back(::fork());
    if (others.back() != 0) continue;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(core), &set);
    ::sched_setaffinity(0, sizeof set, &set);
    ::alarm(60);  // where the test dies before it can end it
    for (volatile bool on = true; on;) {
    }
  }
  const Report report = run_to_end(request(R"("forks": 1, "spare-rounds": 0, "mode": "claims_others")"));
  for (const pid_t other : others) {
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
  }
  if (ProcessorTimesReader(usable_cores()).read().count == 0)
    GTEST_SKIP() << "this system does not show how busy its processors are";
  const CellReport& cell = report.cells.at(0);
  ASSERT_EQ(cell.status, Status::ok) << cell.reason;
  ASSERT_TRUE(is_excused(cell.forks.at(0)));
  const Disturbance& found = *cell.forks.at(0).disturbance;
  EXPECT_EQ(found.processors, 1);
  EXPECT_GE(found.window_ns, 400'000'000) << "of the whole run";
  EXPECT_GT(found.others_share(), 0.1);
  EXPECT_TRUE(contains(cell.flags, quality_flag::disturbed)) << "no rank";
}

// Whether all processes that the cell's workers left have ended, or are zombies that are not reaped yet.
bool left_is_gone(const CellReport& cell) {
  for (const Fork& fork : cell.forks) {
    const pid_t left = std::stoi(fork.settings.at("left"));
    EXPECT_GT(left, 0);
    bool gone = false;
    for (int i = 0; i < 6000 && !gone; ++i) {
      std::ifstream status("/proc/" + std::to_string(left) + "/status");
      const std::string text((std::istreambuf_iterator<char>(status)), {});
      gone = text.empty() || text.find("State:\tZ") != std::string::npos;
      if (!gone) ::usleep(10'000);
    }
    if (gone) continue;
    ::kill(left, SIGKILL);
    return false;
  }
  return true;
}

TEST_F(RunTest, ends_processes_of_a_worker_before_the_next_fork) {
  const Report report = run_to_end(request(R"("forks": 2, "mode": "leaves_behind")"));
  EXPECT_EQ(report.cells.at(0).status, Status::ok) << report.cells[0].reason;
  EXPECT_TRUE(left_is_gone(report.cells[0]));
}

TEST_F(RunTest, a_killed_conductor_leaves_no_process) {
  Report report;
  conduct(request(R"("forks": 200, "fork-style": "resident", "mode": "leaves_behind")"),
          [&](pid_t conductor) {
            report = wait_for_forks(2);
            ::kill(conductor, SIGKILL);
          });
  EXPECT_TRUE(left_is_gone(report.cells.at(0)));
}

TEST_F(RunTest, a_resumed_report_is_valid_before_anything_is_run) {
  RunRequest asked = request(R"("forks": 200, "mode": "slow")");
  conduct(asked, [&](pid_t conductor) {
    wait_for_forks(1);
    ::kill(conductor, SIGKILL);
  });
  asked.resume = read_report(asked.out);
  Progress progress = Progress::quiet();
  const Interrupts interrupts;
  Measurement measurement(asked, cells_of(asked, registries_), registries_, progress, interrupts);
  measurement.prepare();
  EXPECT_THAT(invariant_violations(read_report(asked.out)), IsEmpty());
}

TEST_F(RunTest, a_report_that_another_run_writes_is_refused) {
  const RunRequest asked = request(R"("forks": 200, "mode": "slow")");
  conduct(asked, [&](pid_t conductor) {
    wait_for_forks(1);
    Progress progress = Progress::quiet();
    try {
      run(asked, cells_of(asked, registries_), registries_, progress);
      ADD_FAILURE() << "two runs write one report";
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("is being written by another run"));
    }
    ::kill(conductor, SIGKILL);
  });
  EXPECT_EQ(run_to_end(request(R"("forks": 1, "mode": "good")")).cells.at(0).status, Status::ok);
  EXPECT_FALSE(fs::exists(asked.out.string() + ".lock"));
}

TEST_F(RunTest, ASecondRunOnAnotherNameOfTheReportIsRefused) {
  const RunRequest asked = request(R"("forks": 200, "mode": "slow")");
  std::ofstream(asked.out) << "an earlier file";
  fs::create_directories(folder_ / "other");
  fs::create_symlink(asked.out, folder_ / "link.json");
  fs::create_directory_symlink(folder_, folder_ / "other/folder");
  fs::create_hard_link(asked.out, folder_ / "other/hard.json");
  conduct(asked, [&](pid_t conductor) {
    wait_for_lock(asked.out);
    RunRequest second = asked;
    for (const char* name : {"link.json", "other/folder/report.json", "other/hard.json"}) {
      second.out = folder_ / name;
      Progress progress = Progress::quiet();
      try {
        run(second, cells_of(second, registries_), registries_, progress);
        ADD_FAILURE() << "two runs write one report: " << name;
      } catch (const IoError& error) {
        EXPECT_THAT(error.what(), HasSubstr("is being written by another run"));
      }
      EXPECT_FALSE(fs::exists(folder_ / "other/hard.json.lock"));
    }
    ::kill(conductor, SIGKILL);
  });
}

TEST_F(RunTest, a_device_that_is_not_here_is_asked_for_once) {
  const Report report = run_to_end(
      request(R"("forks": 2, "mode": "no_gpu", "batch": [16, 32, 64], "device": ["cpu", "cuda"])"));
  std::size_t asked = 0;
  ASSERT_EQ(report.cells.size(), 6U);
  for (const CellReport& cell : report.cells) {
    if (cell.axes.device == DeviceKind::cpu) {
      EXPECT_EQ(cell.status, Status::ok) << cell.id << ": " << cell.reason;
      continue;
    }
    EXPECT_EQ(cell.status, Status::unavailable) << cell.id;
    EXPECT_EQ(cell.reason_code,
              cell.forks.empty() ? ReasonCode::found_by_another_cell : ReasonCode::worker_unavailable);
    asked += cell.forks.size();
  }
  EXPECT_EQ(asked, 1U);
}

TEST_F(RunTest, runs_the_other_forks_after_one_crash_but_not_after_two) {
  const Report report = run_to_end(request(R"("forks": 4, "mode": ["crash_once", "crash"])"));
  const CellReport &once = report.cells.at(0), &always = report.cells.at(1);
  ASSERT_EQ(once.forks.size(), 4U);
  EXPECT_EQ(once.status, Status::crashed);
  EXPECT_EQ(once.reason_code, ReasonCode::killed_by_signal);
  EXPECT_THAT(once.reason, HasSubstr("1 of 4"));
  EXPECT_EQ(once.forks[1].status, Status::crashed);
  EXPECT_EQ(once.forks[3].status, Status::ok);
  EXPECT_FALSE(once.metrics.at("step_time").value) << "a backend that crashes is not ranked";
  EXPECT_EQ(always.forks.size(), 2U);
  EXPECT_EQ(always.reason_code, ReasonCode::killed_by_signal);
  EXPECT_THAT(always.reason, HasSubstr("2 of 2"));
}

TEST_F(RunTest, declared_times_become_the_metrics_to_the_bit) {
  const Report report = run_to_end(request(R"("forks": 6, "seed": 10, "mode": "good")"));
  const CellReport& cell = report.cells.at(0);
  ASSERT_EQ(cell.status, Status::ok) << cell.reason;
  // Rounds have the seeds 10 to 15, and a step of seed s takes (1 + s / 100) us.
  EXPECT_DOUBLE_EQ(*cell.metrics.at("step_time").value, 1.125e-6);
  EXPECT_DOUBLE_EQ(*cell.metrics.at("step_time").lower, 1.10e-6);
  EXPECT_DOUBLE_EQ(*cell.metrics.at("step_time").upper, 1.15e-6);
  EXPECT_DOUBLE_EQ(*cell.metrics.at("planned_arena").value, 4096);
  EXPECT_DOUBLE_EQ(*cell.metrics.at("compile_time").value, 0.005);
}

TEST_F(RunTest, ACompileTimeIsHeldToTheConductorsClock) {
  const Report report =
      run_to_end(request(R"("forks": 1, "mode": ["long_compile", "compiles_longer", "busy"])"));
  EXPECT_EQ(report.cells.at(0).reason_code, ReasonCode::protocol_broken);
  EXPECT_THAT(report.cells[0].reason, HasSubstr("1000 s"));
  const CellReport &longer = report.cells.at(1), &busy = report.cells.at(2);
  ASSERT_EQ(longer.status, Status::ok) << longer.reason;
  EXPECT_THAT(longer.forks.at(0).warnings, ::testing::Contains(HasSubstr("reports a compile time of")));
  ASSERT_EQ(busy.status, Status::ok) << busy.reason;
  EXPECT_THAT(busy.forks.at(0).warnings, ::testing::Each(Not(HasSubstr("compile time"))));
}

TEST_F(RunTest, AModeThatCompilesAndCompiledNothingHasFailed) {
  const Report report =
      run_to_end(request(R"("forks": 1, "mode": ["compiles_nothing", "interprets", "good"])"));
  EXPECT_EQ(report.cells.at(0).reason_code, ReasonCode::nothing_compiled) << report.cells[0].reason;
  EXPECT_EQ(report.cells.at(1).status, Status::ok) << "its mode need not compile";
  EXPECT_EQ(report.cells.at(2).status, Status::ok) << "it compiles, and reports no number";
}

TEST_F(RunTest, AWorkerThatLeavesItsProcessorsHasFailed) {
  if (usable_cores().size() < 2) GTEST_SKIP() << "one processor leaves nowhere to go";
  const Report report = run_to_end(request(R"("forks": 1, "threads": 1, "mode": ["wanders", "sleeps"])"));
  EXPECT_EQ(report.cells.at(0).status, Status::failed);
  EXPECT_EQ(report.cells[0].reason_code, ReasonCode::processors_left);
  EXPECT_EQ(report.cells.at(1).status, Status::ok) << report.cells[1].reason;
}

TEST_F(RunTest, AWorkerWhoseThreadsShareOneOfItsProcessorsHasFailed) {
  if (usable_cores().size() < 2) GTEST_SKIP() << "one processor leaves nothing to share";
  const Report report = run_to_end(request(R"("forks": 1, "threads": 2, "mode": "huddles")"));
  EXPECT_EQ(report.cells.at(0).reason_code, ReasonCode::processors_unused) << report.cells[0].reason;
}

TEST_F(RunTest, SeesTheProcessorsAndTheMemoryOfWhatLeftTheWorker) {
  if (usable_cores().size() < 2) GTEST_SKIP() << "one processor leaves nowhere to go";
  const Report report = run_to_end(request(R"("forks": 1, "threads": 1, "mode": "works_in_an_orphan")"));
  const CellReport& cell = report.cells.at(0);
  EXPECT_EQ(cell.reason_code, ReasonCode::processors_left) << cell.reason;
  EXPECT_GE(cell.forks.at(0).host_peak_rss, 128 << 20);
  EXPECT_TRUE(left_is_gone(cell));
}

TEST_F(RunTest, AWorkerThatEndsEarlyFailsWhoeverAnswersForIt) {
  const Report report =
      run_to_end(request(R"("forks": 1, "mode": ["goes_on_in_a_child", "goes_on_in_a_child_at_compile",
      "goes_on_in_a_child_at_run", "says_no_bye", "good"])"));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(report.cells.at(i).reason_code, ReasonCode::worker_exited) << report.cells[i].reason;
    EXPECT_THAT(report.cells[i].reason, HasSubstr("exited with code 0"));
  }
  EXPECT_EQ(report.cells.at(3).reason_code, ReasonCode::protocol_broken) << report.cells[3].reason;
  EXPECT_EQ(report.cells.at(4).status, Status::ok) << report.cells[4].reason;
}

// The processes with that text in their environment, but for this one.
std::vector<std::string> processes_with(const std::string& text) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "environ");
    const std::string all((std::istreambuf_iterator<char>(file)), {});
    if (entry.path().filename() != std::to_string(::getpid()) && all.find(text) != all.npos)
      found.push_back(entry.path());
  }
  return found;
}

TEST_F(RunTest, EndsProcessesThatStartOthersWithoutPause) {
  ::setenv("TMPDIR", (folder_ / "tmp").c_str(), 1);
  fs::create_directories(folder_ / "tmp");
  const auto begin = std::chrono::steady_clock::now();
  const Report report = run_to_end(request(R"("forks": 2, "mode": "forks_without_end")"));
  ::unsetenv("TMPDIR");
  EXPECT_EQ(report.cells.at(0).status, Status::ok) << report.cells[0].reason;
  EXPECT_THAT(processes_with((folder_ / "tmp").string()), IsEmpty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40)) << "they go on for 60 s";
}

TEST_F(RunTest, AWorkerCannotSignalTheConductor) {
  if (!can_confine_signals()) GTEST_SKIP() << "this kernel cannot confine signals";
  for (const char* mode : {"stops_the_conductor", "kills_the_conductor", "interrupts_the_conductor"}) {
    int status = -1;
    const pid_t conductor = ::fork();
    if (conductor == 0) {
      Progress progress = Progress::quiet();
      const Report report = run_to_end(request(R"("forks": 1, "mode": ")" + std::string(mode) + '"'));
      ::_exit(report.cells.at(0).status == Status::ok ? 0 : 1);
    }
    for (int i = 0; i < 6000 && ::waitpid(conductor, &status, WNOHANG) == 0; ++i) ::usleep(10'000);
    ::kill(conductor, SIGKILL);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << mode << ": " << status;
  }
}

TEST_F(RunTest, AWorkerCannotChangeReportsAndBackends) {
  if (!can_confine_signals()) GTEST_SKIP() << "this kernel confines less";
  fs::create_directories(folder_ / "tmp");
  ::setenv("TMPDIR", (folder_ / "tmp").c_str(), 1);
  const Report report = run_to_end(request(R"("forks": 2, "mode": "forges")"));
  ::unsetenv("TMPDIR");
  EXPECT_EQ(report.cells.at(0).status, Status::ok) << report.cells[0].reason;
}

TEST_F(RunTest, EachForkHasATemporaryFolderOfItsOwn) {
  const Report report = run_to_end(request(R"("forks": 2, "mode": ["litters", "good"])"));
  for (const CellReport& cell : report.cells) EXPECT_EQ(cell.status, Status::ok) << cell.reason;
}

TEST_F(RunTest, RemovesFilesThatAreHardToRemove) {
  const fs::path temporary = folder_ / "tmp";
  fs::create_directories(temporary);
  ::setenv("TMPDIR", temporary.c_str(), 1);
  const Report report = run_to_end(request(R"("forks": 3, "mode": "leaves_what_stays")"));
  ::unsetenv("TMPDIR");
  EXPECT_EQ(report.cells.at(0).status, Status::ok) << report.cells[0].reason;
  EXPECT_TRUE(fs::is_empty(temporary));
}

TEST_F(RunTest, FlagsAForkThatStoodStill) {
  const fs::path temporary = folder_ / "tmp";
  fs::create_directories(temporary);
  ::setenv("TMPDIR", temporary.c_str(), 1);
  conduct(request(R"("forks": 1, "spare-rounds": 0, "mode": "sleeps")"), [&](pid_t conductor) {
    const auto begun = [&] {
      for (const auto& entry : fs::recursive_directory_iterator(temporary))
        if (entry.path().filename() == "began") return true;
      return false;
    };
    for (int i = 0; i < 6000 && !begun(); ++i) ::usleep(10'000);
    ::usleep(700'000);  // its blocks take from 0.5 s to 2.3 s
    ::kill(conductor, SIGSTOP);
    ::usleep(1'500'000);
    ::kill(conductor, SIGCONT);
  });
  ::unsetenv("TMPDIR");
  const Report report = read_report(folder_ / "report.json");
  const Fork& fork = report.cells.at(0).forks.at(0);
  ASSERT_EQ(fork.status, Status::ok) << fork.reason;
  EXPECT_TRUE(contains(fork.flags, quality_flag::frozen));
  EXPECT_FALSE(counts(fork));
  EXPECT_THAT(fork.warnings, Contains(HasSubstr("it stood still for")));
  EXPECT_FALSE(ranked_time(report.cells[0]));
}

TEST_F(RunTest, memory_of_a_worker_is_that_of_its_children_too) {
  const Report report = run_to_end(request(R"("forks": 1, "mode": "forks")"));
  ASSERT_EQ(report.cells.at(0).status, Status::ok) << report.cells[0].reason;
  const Fork& fork = report.cells[0].forks.at(0);
  const auto most = std::max_element(fork.samples.begin(), fork.samples.end(),
                                     [](const auto& a, const auto& b) { return a.processes < b.processes; });
  ASSERT_NE(most, fork.samples.end());
  EXPECT_EQ(most->processes, 3);
  EXPECT_GE(fork.host_peak_rss, 128 << 20) << "the sum, not the largest of them";
}

TEST_F(RunTest, the_report_on_disk_equals_the_returned_one) {
  const Report report = run_to_end(request(R"("forks": 1, "epochs": 2, "mode": "good")"));
  EXPECT_EQ(report_text(read_report(folder_ / "report.json")), report_text(report));
  EXPECT_DOUBLE_EQ(*report.cells.at(0).metrics.at("test_accuracy").value, 0.75);
}

TEST_F(RunTest, backends_of_a_group_take_turns) {
  const Report report = run_to_end(request(R"("forks": 3, "mode": ["good", "other"])"));
  for (const CellReport& cell : report.cells) {
    ASSERT_EQ(cell.forks.size(), 3U);
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(cell.forks[static_cast<std::size_t>(round)].round, round);
      EXPECT_EQ(cell.forks[static_cast<std::size_t>(round)].seed, 1U + static_cast<unsigned>(round));
    }
  }
}

TEST_F(RunTest, EveryRoundHasOneSeedWhereThatIsAsked) {
  const Report report =
      run_to_end(request(R"("forks": 3, "seed": 10, "seed-per-round": false, "mode": "good")"));
  EXPECT_EQ(report.run.settings.seed_per_round, false);
  const CellReport& cell = report.cells.at(0);
  ASSERT_EQ(cell.forks.size(), 3U);
  for (const Fork& fork : cell.forks) EXPECT_EQ(fork.seed, 10U);
  // A step of seed s takes (1 + s / 100) us.
  EXPECT_DOUBLE_EQ(*cell.metrics.at("step_time").value, 1.10e-6);
}

std::set<std::string> processes_of(const CellReport& cell) {
  std::set<std::string> processes;
  for (const Fork& fork : cell.forks)
    if (fork.settings.contains("process")) processes.insert(fork.settings.at("process"));
  return processes;
}

TEST_F(RunTest, AnAllocatorThatKeepsMemoryIsASettingOfTheWorkerAndComparedWithTheDefault) {
  const Report report =
      run_to_end(request(R"("forks": 1, "mode": "good", "allocator": ["default", "keep"])"));
  ASSERT_EQ(report.cells.size(), 2U);
  EXPECT_FALSE(report.cells[0].forks.at(0).variables.contains("MALLOC_TRIM_THRESHOLD_"));
  EXPECT_TRUE(report.cells[1].forks.at(0).variables.contains("MALLOC_TRIM_THRESHOLD_"));
  EXPECT_EQ(group_title(report.cells[0].axes), group_title(report.cells[1].axes));
  EXPECT_EQ(mode_words(report.cells[1].axes), mode_words(report.cells[0].axes) + " allocator=keep");
}

TEST_F(RunTest, ResidentForksOfACellShareAProcess) {
  const Report report =
      run_to_end(request(R"("forks": 3, "fork-style": "resident", "mode": ["good", "other"])"));
  EXPECT_EQ(report.run.settings.fork_style, "resident");
  for (const CellReport& cell : report.cells) {
    ASSERT_EQ(cell.status, Status::ok) << cell.reason;
    ASSERT_EQ(cell.forks.size(), 3U);
    EXPECT_EQ(processes_of(cell).size(), 1U);
    for (const Fork& fork : cell.forks) {
      EXPECT_EQ(fork.resident, fork.round > 0);
      EXPECT_EQ(fork.seed, 1U + static_cast<unsigned>(fork.round));
      ASSERT_TRUE(fork.spent);
      EXPECT_EQ(fork.spent->start > 0, fork.round == 0);
      EXPECT_EQ(fork.spent->check > 0, fork.examined);
    }
    // A step of seed s takes (1 + s / 100) us: each fork has its own seed.
    EXPECT_DOUBLE_EQ(*cell.metrics.at("step_time").value, 1.02e-6);
    EXPECT_EQ(cell.metrics.at("compile_time").n, 1) << "only one fork compiled";
  }
}

TEST_F(RunTest, SettingsThatMayBeSecretAreNotReported) {
  const Report report = run_to_end(request(R"("forks": 1, "mode": "good")"));
  const auto& settings = report.cells.at(0).forks.at(0).settings;
  EXPECT_TRUE(settings.contains("process"));
  EXPECT_FALSE(settings.contains("TF_TOKEN_example_org"));
}

TEST_F(RunTest, FreshForksHaveAProcessEach) {
  const Report report = run_to_end(request(R"("forks": 3, "mode": "good")"));
  EXPECT_EQ(processes_of(report.cells.at(0)).size(), 3U);
  EXPECT_EQ(report.cells[0].metrics.at("compile_time").n, 3);
}

TEST_F(RunTest, EpochsStartColdWhateverTheForkStyle) {
  const Report report =
      run_to_end(request(R"("forks": 2, "epochs": 1, "fork-style": "resident", "mode": "good")"));
  EXPECT_EQ(processes_of(report.cells.at(0)).size(), 2U);
}

TEST_F(RunTest, AResidentWorkerThatDiesIsReplaced) {
  const Report report = run_to_end(request(R"("forks": 4, "fork-style": "resident", "mode": "crash_once")"));
  const CellReport& cell = report.cells.at(0);
  ASSERT_EQ(cell.forks.size(), 4U);
  EXPECT_EQ(cell.forks[1].status, Status::crashed);
  EXPECT_EQ(cell.forks[2].status, Status::ok);
  EXPECT_FALSE(cell.forks[2].resident);
  EXPECT_TRUE(cell.forks[3].resident);
}

TEST_F(RunTest, interrupting_leaves_a_valid_report_that_resume_completes) {
  const RunRequest asked = request(R"("forks": 200, "mode": "slow")");
  conduct(asked, [&](pid_t conductor) {
    wait_for_forks(1);
    ::kill(conductor, SIGINT);
  });
  const Report half = read_report(asked.out);
  EXPECT_THAT(invariant_violations(half), IsEmpty());
  EXPECT_FALSE(half.run.complete);
  EXPECT_EQ(half.cells.at(0).status, Status::interrupted);
  const std::size_t kept = half.cells[0].forks.size();
  ASSERT_LT(kept, 200U);

  RunRequest again = request(fmt::format(R"("forks": {}, "mode": "slow")", kept + 1));
  again.resume = half;
  const Report whole = run_to_end(again);
  EXPECT_EQ(whole.cells.at(0).status, Status::ok) << whole.cells[0].reason;
  ASSERT_EQ(whole.cells[0].forks.size(), kept + 1);
  ASSERT_GT(kept, 0U);
  EXPECT_EQ(whole.cells[0].forks[0].blocks.at(0).begin_ns, half.cells[0].forks[0].blocks.at(0).begin_ns);
  EXPECT_TRUE(whole.run.complete);
}

TEST_F(RunTest, resume_completes_the_report_of_a_killed_conductor) {
  const RunRequest asked = request(R"("forks": 3, "mode": ["slow", "good"])");
  conduct(asked, [&](pid_t conductor) {
    wait_for_forks(2);
    ::kill(conductor, SIGKILL);
  });
  RunRequest again = asked;
  again.resume = read_report(asked.out);
  EXPECT_THAT(invariant_violations(*again.resume), IsEmpty());
  const Report whole = run_to_end(again);
  for (const CellReport& cell : whole.cells) {
    EXPECT_EQ(cell.status, Status::ok) << cell.id << ": " << cell.reason;
    EXPECT_EQ(cell.forks.size(), 3U);
  }
}

TEST_F(RunTest, resume_refuses_a_report_of_another_config) {
  RunRequest other = request(R"("forks": 1, "mode": "good", "batch": 64)");
  other.resume = run_to_end(request(R"("forks": 1, "mode": "good")"));
  Progress progress = Progress::quiet();
  EXPECT_THROW(run(other, cells_of(other, registries_), registries_, progress), ConfigError);
}

TEST_F(RunTest, ResumeRefusesAReportOfAnotherMachineOrBuild) {
  const Report one = run_to_end(request(R"("forks": 1, "mode": "good")"));
  const auto refusal = [&](const std::function<void(RunRequest&)>& change) -> std::string {
    RunRequest more = request(R"("forks": 2, "mode": "good")");
    more.resume = one;
    change(more);
    Progress progress = Progress::quiet();
    try {
      run(more, cells_of(more, registries_), registries_, progress);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal([](RunRequest&) {}), "none");
  EXPECT_EQ(one.run.commit, build_info().commit);
  EXPECT_EQ(one.run.dirty, build_info().dirty) << "as --version says";
  EXPECT_THAT(refusal([](RunRequest& r) { r.environment.cpu.model = "another"; }),
              HasSubstr("the earlier report is from another machine"));
  const auto at_speed = [&](double loop_seconds) {
    return refusal([&](RunRequest& r) {
      r.resume->environment.cpu.loop_seconds = 300e-6;
      r.environment = r.resume->environment;
      r.environment.cpu.loop_seconds = loop_seconds;
    });
  };
  EXPECT_EQ(at_speed(340e-6), "none");
  EXPECT_THAT(at_speed(350e-6), HasSubstr("the time of a fixed loop on its processor was 300 us"));
  EXPECT_THAT(refusal([](RunRequest& r) { r.resume->run.commit = "another"; }),
              HasSubstr("forks of two builds must not be mixed"));
  EXPECT_THAT(refusal([](RunRequest& r) { r.resume->run.dirty = !r.resume->run.dirty; }),
              HasSubstr("forks of two builds must not be mixed"));
}

TEST_F(RunTest, ABackendThatChangesDuringTheRunHasFailed) {
  const fs::path own = use_own_backend();
  const RunRequest asked = request(R"("forks": 3, "mode": "good")");
  Progress progress = Progress::quiet();
  const Interrupts interrupts;
  Measurement measurement(asked, cells_of(asked, registries_), registries_, progress, interrupts);
  measurement.prepare();
  measurement.time({0, 0});
  fs::create_directories(own / "__pycache__");
  std::ofstream(own / "__pycache__/worker.pyc") << "compiled";
  measurement.time({0, 1});
  std::ofstream(own / "worker.py") << "two = 2\n";
  measurement.time({0, 2});
  const std::vector<Fork> forks = measurement.finish(false).cells.at(0).forks;
  ASSERT_EQ(forks.size(), 3U);
  EXPECT_EQ(forks[0].status, Status::ok) << forks[0].reason;
  EXPECT_EQ(forks[1].status, Status::ok) << forks[1].reason;
  EXPECT_EQ(forks[0].adapter_digest, forks[1].adapter_digest);
  EXPECT_EQ(forks[2].reason_code, ReasonCode::backend_changed);
  EXPECT_THAT(forks[2].reason, HasSubstr("here/worker.py of the backend fault"));
  EXPECT_NE(forks[0].adapter_digest, forks[2].adapter_digest);
}

TEST_F(RunTest, ResumeRefusesAnotherBackend) {
  const fs::path own = use_own_backend();
  RunRequest more = request(R"("forks": 2, "mode": "good")");
  more.resume = run_to_end(request(R"("forks": 1, "mode": "good")"));
  std::ofstream(own / "worker.py") << "two = 2\n";
  Progress progress = Progress::quiet();
  try {
    run(more, cells_of(more, registries_), registries_, progress);
    ADD_FAILURE() << "forks of two adapters in one cell";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the scripts of the backend fault changed"));
  }
  std::ofstream(own / "worker.py") << "one = 1\n";
  EXPECT_EQ(run_to_end(more).cells.at(0).forks.size(), 2U);
}

TEST_F(RunTest, ResumeRefusesOtherData) {
  RunRequest more = request(R"("forks": 2, "mode": "good")");
  more.resume = run_to_end(request(R"("forks": 1, "mode": "good")"));
  EXPECT_EQ(more.resume->cells.at(0).forks.at(0).data_digest, more.resume->run.datasets->at(0).checksum);
  more.resume->run.datasets->at(0).checksum = "of other data";
  Progress progress = Progress::quiet();
  try {
    run(more, cells_of(more, registries_), registries_, progress);
    ADD_FAILURE() << "forks on two data sets in one cell";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the checksum of the data set \"synthetic\" was \"of other data\""));
  }
  more.resume->run.weights = FileDigest{.name = "w", .sha256 = "ab"};
  EXPECT_NO_THROW(reject_other_weights(*more.resume, {.name = "w", .sha256 = "ab"}));
  EXPECT_THROW(reject_other_weights(*more.resume, {.name = "w", .sha256 = "cd"}), ConfigError);
}

TEST_F(RunTest, ImagesThatChangeDuringTheRunEndItsForks) {
  const fs::path image = write_images() / "a/0.jpg";
  const std::string earlier = read_text(image);
  RunRequest asked = images(2, R"("mode": ["good", "slow"])");
  const auto measured = [&] {
    Progress progress = Progress::quiet();
    const Interrupts interrupts;
    Measurement measurement(asked, cells_of(asked, registries_), registries_, progress, interrupts);
    measurement.prepare();
    measurement.time({0, 0});
    std::string text = earlier;
    text.back() = 'y';
    std::ofstream(image) << text;
    measurement.time({0, 1});
    measurement.time({1, 0});
    return measurement.finish(false);
  };
  const Report report = measured();
  ASSERT_EQ(report.cells.at(0).forks.size(), 2U);
  EXPECT_EQ(report.cells[0].forks[0].status, Status::ok) << report.cells[0].forks[0].reason;
  EXPECT_EQ(report.cells[0].forks[1].reason_code, ReasonCode::data_changed);
  EXPECT_THAT(report.cells[0].forks[1].reason, HasSubstr(image.string() + " was changed or replaced"));
  EXPECT_EQ(report.cells.at(1).reason_code, ReasonCode::data_changed);
  EXPECT_THAT(invariant_violations(report), IsEmpty());

  std::ofstream(image) << earlier;
  asked.resume = report;
  const Report whole = run_to_end(asked);
  for (const CellReport& cell : whole.cells) {
    EXPECT_EQ(cell.status, Status::ok) << cell.reason;
    EXPECT_GE(cell.forks.size(), 2U) << "those on the other data are measured again";
    for (const Fork& fork : cell.forks) EXPECT_EQ(fork.status, Status::ok) << fork.reason;
  }
}

TEST_F(RunTest, ImagesThatVanishWhileTheWorkerRunsAreTheReasonOfItsFailure) {
  const fs::path image = write_images() / "a/0.jpg";
  const RunRequest asked = images(1, R"("mode": "slow")");
  std::optional<std::jthread> other;
  Progress progress = Progress::quiet();
  const Interrupts interrupts;
  Measurement measurement(asked, cells_of(asked, registries_), registries_, progress, interrupts);
  measurement.prepare();
  other.emplace([&] {
    ::usleep(50'000);  // a slow fork takes 0.2 s or more
    fs::remove(image);
  });
  measurement.time({0, 0});
  other.reset();
  const Report report = measurement.finish(false);
  EXPECT_EQ(report.cells.at(0).reason_code, ReasonCode::data_changed) << report.cells.at(0).reason;
  EXPECT_THAT(report.cells.at(0).reason, HasSubstr("cannot be examined any more"));
}

// The samples are in the cache before the first fork.
TEST_F(RunTest, ArraysAndTextsThatChangeDuringTheRunAreReadOnce) {
  const fs::path npy = folder_ / "data/npy", text = folder_ / "data/text";
  for (const fs::path& folder : {npy, text}) fs::create_directories(folder);
  const auto write = [&](std::uint8_t pixel, char letter) {
    const std::vector<std::uint8_t> inputs(40 * 784, pixel);
    write_npy<std::uint8_t>(npy / "inputs.npy", {DType::u8, {40, 1, 28, 28}}, inputs);
    std::ofstream(text / "input.txt") << std::string(2000, letter) << "cd\n";
  };
  write(1, 'a');
  std::vector<std::int32_t> labels(40, 0);
  labels.front() = 1;
  write_npy<std::int32_t>(npy / "labels.npy", {DType::i32, {40}}, labels);
  const auto asked = [&](const char* workload, const char* dataset, int forks) {
    RunRequest made = request(fmt::format(R"("forks": {}, "batch": 4, "mode": "good")", forks));
    made.config.values["workload"] = {workload};
    made.config.values["dataset"] = {dataset};
    made.config.values["data"] = {(folder_ / "data").string()};
    return made;
  };
  const auto measured = [&](const RunRequest& request) {
    write(1, 'a');
    Progress progress = Progress::quiet();
    const Interrupts interrupts;
    Measurement measurement(request, cells_of(request, registries_), registries_, progress, interrupts);
    measurement.prepare();
    measurement.time({0, 0});
    write(2, 'b');
    measurement.time({0, 1});
    return measurement.finish(false);
  };
  for (const auto& [workload, dataset] : {std::pair{"mlp", "npy"}, {"nanogpt", "text"}}) {
    const Report report = measured(asked(workload, dataset, 2));
    EXPECT_EQ(report.cells.at(0).status, Status::ok) << report.cells[0].reason;
    ASSERT_EQ(report.cells[0].forks.size(), 2U);
    EXPECT_EQ(report.cells[0].forks[1].data_digest, report.run.datasets->at(0).checksum);
    RunRequest more = asked(workload, dataset, 3);
    more.resume = report;
    Progress progress = Progress::quiet();
    EXPECT_THROW(run(more, cells_of(more, registries_), registries_, progress), ConfigError) << dataset;
  }
}

TEST_F(RunTest, ResumeRefusesOtherImagesOfTheSameNamesAndLengths) {
  const fs::path image = write_images() / "a/0.jpg";
  RunRequest more = images(2, R"("mode": "good")");
  more.resume = run_to_end(images(1, R"("mode": "good")"));
  const std::string earlier = read_text(image);
  std::string text = earlier;
  text.back() = 'y';
  std::ofstream(image) << text;
  Progress progress = Progress::quiet();
  try {
    run(more, cells_of(more, registries_), registries_, progress);
    ADD_FAILURE() << "forks on two data sets in one cell";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the checksum of the data set \"images\" was"));
  }
  std::ofstream(image) << earlier;
  EXPECT_EQ(run_to_end(more).cells.at(0).forks.size(), 2U) << "the same data, written again";
}

TEST_F(RunTest, ResumeRefusesOtherEnvironmentVariables) {
  RunRequest more = request(R"("forks": 2, "mode": "good")");
  more.resume = run_to_end(request(R"("forks": 1, "mode": "good")"));
  ::setenv("OMP_SCHEDULE", "static", 1);  // reaches no worker
  ::setenv("CUDA_MPS_LOG_DIRECTORY", "/another", 1);
  Progress progress = Progress::quiet();
  try {
    run(more, cells_of(more, registries_), registries_, progress);
    ADD_FAILURE() << "forks with two folders of logs in one cell";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("CUDA_MPS_LOG_DIRECTORY was not set and is '/another' now"));
  }
  ::unsetenv("CUDA_MPS_LOG_DIRECTORY");
  EXPECT_EQ(run_to_end(more).cells.at(0).forks.size(), 2U);
  ::unsetenv("OMP_SCHEDULE");
  RunRequest named = request(R"("forks": 3, "mode": "good", "environment": "OMP_SCHEDULE=static")");
  named.resume = read_report(more.out);
  EXPECT_THROW(run(named, cells_of(named, registries_), registries_, progress), ConfigError)
      << "the other forks did not have it";
}

TEST_F(RunTest, resume_may_ask_for_more_forks_and_runs_only_those) {
  RunRequest more = request(R"("forks": 3, "mode": "good")");
  const Report one = run_to_end(request(R"("forks": 1, "mode": "good")"));
  more.resume = one;
  const Report three = run_to_end(more);
  EXPECT_EQ(three.cells.at(0).forks.size(), 3U);
  EXPECT_EQ(three.cells[0].status, Status::ok);
}

TEST_F(RunTest, WithoutForksItOnlyPlans) {
  RunRequest asked = request(R"("forks": 0, "mode": ["crash", "good"])");
  asked.config.values["check"] = {"true"};
  Progress progress = Progress::quiet();
  const RunOutcome outcome = run(asked, cells_of(asked, registries_), registries_, progress);
  EXPECT_TRUE(outcome.complete());
  EXPECT_THAT(invariant_violations(outcome.report), IsEmpty());
  for (const CellReport& cell : outcome.report.cells) {
    EXPECT_EQ(cell.status, Status::ok) << cell.reason;
    EXPECT_TRUE(cell.forks.empty());
    EXPECT_FALSE(cell.equivalence.checked);
    EXPECT_GT(cell.metrics.at("plan_naive").value.value_or(0), 0);
    EXPECT_THAT(cell.metrics.at("step_time").reason, Not(HasSubstr("interrupted")));
  }
  asked.config.values["forks"] = {"1"};
  asked.resume = outcome.report;
  const Report measured = run_to_end(asked);
  EXPECT_EQ(measured.cells.at(0).status, Status::crashed);
  EXPECT_EQ(measured.cells.at(1).forks.size(), 1U);
}

TEST_F(RunTest, CannotChooseAModeWithoutForks) {
  EXPECT_THROW(cells_of(request(R"("forks": 0, "mode": "best")"), registries_), ConfigError);
  EXPECT_NO_THROW(cells_of(request(R"("forks": 1, "mode": "best")"), registries_));
}

TEST_F(RunTest, refuses_an_unwritable_report_before_it_runs) {
  RunRequest asked = request(R"("forks": 1, "mode": "good")");
  asked.out = folder_ / "absent/report.json";
  Progress progress = Progress::quiet();
  EXPECT_THROW(run(asked, cells_of(asked, registries_), registries_, progress), std::exception);
}

TEST_F(RunTest, a_filter_keeps_the_cells_that_hold_one_of_its_texts) {
  RunRequest asked = request(R"("mode": ["good", "slow"])");
  const std::size_t all = cells_of(asked, registries_).cells.size();
  ASSERT_EQ(all, 2u);
  for (const auto& [filter, left] :
       std::map<std::string, std::size_t>{{"/good/", 1}, {"/good/,/slow/", 2}, {"/good/,", 1}}) {
    asked.filter = filter;
    EXPECT_EQ(cells_of(asked, registries_).cells.size(), left) << filter;
  }
}

TEST_F(RunTest, AFilterOfWhichATextLeavesNothingIsRefused) {
  RunRequest asked = request(R"("mode": "good")");
  for (const char* filter : {"lenet5", "/good/,lenet5", ","}) {
    asked.filter = filter;
    EXPECT_THROW(cells_of(asked, registries_), ConfigError) << filter;
  }
}

TEST_F(RunTest, without_an_oracle_a_cell_is_not_called_equal) {
  RunRequest asked = request(R"("forks": 1, "mode": "good")");
  asked.config.values["check"] = {"true"};
  const Report report = run_to_end(asked);
  EXPECT_EQ(report.cells.at(0).status, Status::failed);
  EXPECT_EQ(report.cells[0].reason_code, ReasonCode::not_checked);
  EXPECT_FALSE(report.cells[0].equivalence.checked);
  EXPECT_FALSE(report.cells[0].equivalence.passed);
  EXPECT_THAT(report.cells[0].equivalence.reason, HasSubstr("no oracle is available"));
}

TEST_F(RunTest, ACheckWithoutAnOracleIsNotComplete) {
  RunRequest asked = request(R"("mode": "good")");
  asked.config.values["check"] = {"true"};
  asked.check_only = true;
  Progress progress = Progress::quiet();
  const RunOutcome outcome = run(asked, cells_of(asked, registries_), registries_, progress);
  EXPECT_FALSE(outcome.complete());
  EXPECT_EQ(outcome.report.cells.at(0).reason_code, ReasonCode::not_checked);
}

TEST_F(RunTest, ChecksOfTwoCellsAreMadeSideBySide) {
  if (usable_cores().size() < 2) GTEST_SKIP() << "one processor makes one check at a time";
  RunRequest asked = request(R"("forks": 1, "mode": "meets", "batch": [16, 32])");
  asked.config.values["check"] = {"true"};
  asked.check_only = true;
  for (const CellReport& cell : run_to_end(asked).cells) EXPECT_THAT(cell.reason, HasSubstr("two were here"));
}

TEST_F(RunTest, ACheckThatFailsBesideAnotherIsMadeAgainAlone) {
  if (usable_cores().size() < 2) GTEST_SKIP() << "one processor makes one check at a time";
  RunRequest asked = request(R"("forks": 1, "mode": "wants_room", "batch": [16, 32])");
  asked.config.values["check"] = {"true"};
  asked.check_only = true;
  for (const CellReport& cell : run_to_end(asked).cells) {
    EXPECT_THAT(cell.reason, HasSubstr("alone at last"));
    EXPECT_EQ(cell.forks.size(), 1U) << "a check that failed next to another one left nothing";
  }
}

TEST_F(RunTest, the_next_run_removes_files_of_a_killed_conductor) {
  const fs::path temporary = folder_ / "tmp";
  fs::create_directories(temporary);
  ::setenv("TMPDIR", temporary.c_str(), 1);
  const RunRequest asked = request(R"("forks": 200, "mode": "slow")");
  conduct(asked, [&](pid_t conductor) {
    wait_for_forks(1);
    ::kill(conductor, SIGKILL);
  });
  EXPECT_FALSE(fs::is_empty(temporary)) << "a conductor that is killed cannot tidy up";
  run_to_end(request(R"("forks": 1, "mode": "good")"));
  ::unsetenv("TMPDIR");
  EXPECT_TRUE(fs::is_empty(temporary));
}

TEST_F(RunTest, KeepsAWarmCompileCacheInTheCacheThatTheEnvironmentNames) {
  run_to_end(request(R"("forks": 1, "mode": "good", "compile-cache": "warm")"));
  EXPECT_TRUE(fs::is_directory(folder_ / "cache" / "warm"));
}

TEST_F(RunTest, its_folders_are_gone_afterwards) {
  const fs::path temporary = folder_ / "tmp";
  fs::create_directories(temporary);
  ::setenv("TMPDIR", temporary.c_str(), 1);
  run_to_end(request(R"("forks": 1, "mode": ["good", "crash"])"));
  ::unsetenv("TMPDIR");
  EXPECT_TRUE(fs::is_empty(temporary));
}

}  // namespace
}  // namespace assay

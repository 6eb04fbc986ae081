// Each way in which a worker can go wrong soon gives a status with a reason, and leaves no process.
#include "harness/conductor/process/conversation.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/faults/fault_plan.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using protocol::Command;
using protocol::Verb;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class ConversationTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "results"); }

  ConversationResult with(const std::string& mode, double seconds = 20,
                          std::optional<Deadline> deadline = std::nullopt, double quit_seconds = 10) {
    ConversationPlan plan = test::fault_plan(folder_, mode);
    plan.commands = {Command{Verb::compile}, Command{Verb::run}};
    plan.phase_seconds = seconds;
    plan.quit_seconds = quit_seconds;
    plan.deadline = deadline;
    return converse(plan);
  }
  ConversationResult after_compile(Verb verb, const std::string& mode) {
    ConversationPlan plan = test::fault_plan(folder_, mode);
    plan.commands = {Command{Verb::compile}, Command{verb}};
    return converse(plan);
  }

  TemporaryFolder own_folder_;
  const fs::path folder_ = own_folder_.path();
};

TEST_F(ConversationTest, KeepsAllAnswersOfAWorkerThatBehaves) {
  const ConversationResult result = with("good");
  EXPECT_EQ(result.status, Status::ok) << result.reason;
  EXPECT_EQ(result.hello->version_of_backend, "1.0");
  EXPECT_EQ(result.compiled->memory.at("planned_arena"), 4096);
  EXPECT_TRUE(result.ran);
  EXPECT_GT(result.exit.peak_rss, 0);
  EXPECT_GT(result.start_rss, 0);
  EXPECT_GE(result.peak_rss, result.start_rss);
}

TEST_F(ConversationTest, a_crash_names_the_signal_the_moment_and_the_last_words) {
  const ConversationResult result = with("crash");
  EXPECT_EQ(result.status, Status::crashed);
  EXPECT_THAT(result.reason,
              AllOf(HasSubstr("SIGSEGV"), HasSubstr("during run"), HasSubstr("about to fall")));
  EXPECT_EQ(result.reason_code, ReasonCode::killed_by_signal);
  EXPECT_THAT(result.log_tail, HasSubstr("about to fall"));
  EXPECT_EQ(result.failed_at, Verb::run);
}

TEST_F(ConversationTest, reports_a_crash_at_the_start) {
  const ConversationResult result = with("crash_at_hello");
  EXPECT_EQ(result.status, Status::crashed);
  EXPECT_EQ(result.reason_code, ReasonCode::killed_by_signal);
  EXPECT_FALSE(result.failed_at) << "it was not asked anything yet";
}

TEST_F(ConversationTest, one_killed_from_outside_is_crashed) {
  const ConversationResult result = with("killed");
  EXPECT_EQ(result.status, Status::crashed);
  EXPECT_EQ(result.reason_code, ReasonCode::killed_from_outside);
  EXPECT_THAT(result.reason, HasSubstr("SIGKILL"));
}

TEST_F(ConversationTest, one_that_outlives_the_time_of_all_its_phases_is_interrupted) {
  const auto begin = std::chrono::steady_clock::now();
  const ConversationResult result = with("hang", 20, Deadline{begin + std::chrono::milliseconds(700)});
  EXPECT_EQ(result.status, Status::interrupted);
  EXPECT_EQ(result.reason_code, ReasonCode::quick_time_spent);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60))
      << "it does not end by itself";
}

TEST_F(ConversationTest, a_hang_times_out_even_where_sigterm_is_ignored) {
  const auto begin = std::chrono::steady_clock::now();
  for (const char* mode : {"hang", "hang_at_hello", "chatty"}) {
    const ConversationResult result = with(mode, 0.3);
    EXPECT_EQ(result.status, Status::timed_out) << mode;
    EXPECT_EQ(result.reason_code, ReasonCode::time_limit) << mode;
    EXPECT_THAT(result.reason, HasSubstr("0.3 s")) << mode;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << "none ends by itself";
}

TEST_F(ConversationTest, AsksForTheStackOfAWorkerThatGivesNoAnswer) {
  const ConversationResult result = with("prints_its_stack", 0.3);
  EXPECT_EQ(result.reason_code, ReasonCode::time_limit);
  EXPECT_EQ(result.log_tail, "in pause()\n");
}

TEST_F(ConversationTest, one_that_closes_its_channel_and_lives_on_is_ended) {
  const ConversationResult result = with("deaf");
  EXPECT_EQ(result.status, Status::failed);
  EXPECT_EQ(result.reason_code, ReasonCode::protocol_broken);
}

TEST_F(ConversationTest, accepts_a_flood_on_stderr) {
  const ConversationResult result = with("flood");
  EXPECT_EQ(result.status, Status::ok) << result.reason;
  EXPECT_LT(fs::file_size(folder_ / "log"), 3U << 20);
}

TEST_F(ConversationTest, garbage_on_the_channel_is_shown) {
  const ConversationResult result = with("garbage");
  EXPECT_EQ(result.status, Status::failed);
  EXPECT_EQ(result.reason_code, ReasonCode::protocol_broken);
  EXPECT_THAT(result.reason, HasSubstr("Traceback"));
  EXPECT_EQ(with("long_line").reason_code, ReasonCode::protocol_broken);
}

TEST_F(ConversationTest, a_death_in_the_middle_of_a_line_shows_the_half) {
  const ConversationResult result = with("half_line");
  EXPECT_EQ(result.status, Status::failed);
  EXPECT_THAT(result.reason, AllOf(HasSubstr("exited with code 1"), HasSubstr("{\"event\": \"ra")));
  EXPECT_EQ(result.reason_code, ReasonCode::worker_exited);
}

TEST_F(ConversationTest, an_answer_to_another_question_is_refused) {
  const ConversationResult result = with("wrong_event");
  EXPECT_EQ(result.reason_code, ReasonCode::protocol_broken);
  EXPECT_EQ(result.failed_at, Verb::run);
}

TEST_F(ConversationTest, AnAnswerAfterTheLastOneIsRefused) {
  const ConversationResult twice = with("says_bye_twice");
  EXPECT_EQ(twice.reason_code, ReasonCode::protocol_broken);
  EXPECT_THAT(twice.reason, HasSubstr("sent 'bye' after its last answer"));
  ConversationPlan plan = test::fault_plan(folder_, "answers_twice");
  plan.commands = {Command{Verb::compile}, Command{Verb::verify}};
  EXPECT_EQ(converse(plan).reason_code, ReasonCode::protocol_broken);
}

TEST_F(ConversationTest, AMessageWithAKeyTwiceIsRefused) {
  const ConversationResult result = with("doubled_key");
  EXPECT_EQ(result.reason_code, ReasonCode::protocol_broken);
  EXPECT_THAT(result.reason, HasSubstr("duplicate key \"event\""));
}

TEST_F(ConversationTest, KeepsTheTimesOfAnExchange) {
  const ConversationResult result = after_compile(Verb::exchange, "good");
  EXPECT_EQ(result.status, Status::ok) << result.reason;
  ASSERT_TRUE(result.exchanged);
  EXPECT_EQ(result.exchanged->gradient_bytes, 4096);
  EXPECT_EQ(result.exchanged->step_seconds, (std::vector<double>{3e-9, 3e-9}));
}

TEST_F(ConversationTest, RefusesTimesOfAnExchangeThatCannotBeTrue) {
  const std::pair<const char*, const char*> lies[] = {
      {"exchanges_too_long", "but it answered after"},
      {"exchanges_in_no_time", "an impossible time of its exchange: 0 s"},
      {"exchanges_in_other_rounds", "not of the same rounds"},
      {"exchanges_without_a_word", "or a reason why it has none"}};
  for (const auto& [mode, words] : lies) {
    const ConversationResult result = after_compile(Verb::exchange, mode);
    EXPECT_EQ(result.reason_code, ReasonCode::protocol_broken) << mode;
    EXPECT_EQ(result.failed_at, Verb::exchange) << mode;
    EXPECT_THAT(result.reason, HasSubstr(words)) << mode;
    EXPECT_FALSE(result.exchanged) << mode;
  }
}

TEST_F(ConversationTest, KeepsTheTimesOfTheDevice) {
  const ConversationResult result = after_compile(Verb::time_device, "good");
  EXPECT_EQ(result.status, Status::ok) << result.reason;
  ASSERT_TRUE(result.device_timed);
  EXPECT_EQ(result.device_timed->steps, 1000);
  EXPECT_EQ(result.device_timed->step_seconds, (std::vector<double>{1e-9, 3e-9, 2e-9}));
}

TEST_F(ConversationTest, RefusesTimesOfTheDeviceThatCannotBeTrue) {
  const std::pair<const char*, const char*> lies[] = {
      {"device_too_long", "1000 s of its device, but it answered after"},
      {"device_in_no_time", "an impossible time of its device: 0 s"},
      {"device_without_a_word", "or a reason why it has none"}};
  for (const auto& [mode, words] : lies) {
    const ConversationResult result = after_compile(Verb::time_device, mode);
    EXPECT_EQ(result.reason_code, ReasonCode::protocol_broken) << mode;
    EXPECT_EQ(result.failed_at, Verb::time_device) << mode;
    EXPECT_THAT(result.reason, HasSubstr(words)) << mode;
    EXPECT_FALSE(result.device_timed) << mode;
  }
}

TEST_F(ConversationTest, distinguishes_out_of_memory_from_a_crash) {
  for (const char* mode : {"bad_alloc", "out_of_memory"}) {
    const ConversationResult result = with(mode);
    EXPECT_EQ(result.status, Status::out_of_memory) << mode;
    EXPECT_EQ(result.reason_code, ReasonCode::worker_out_of_memory) << mode;
  }
}

TEST_F(ConversationTest, unsupported_comes_with_the_workers_own_words) {
  const ConversationResult result = with("unsupported");
  EXPECT_EQ(result.status, Status::unsupported);
  EXPECT_EQ(result.reason_code, ReasonCode::worker_unsupported);
  EXPECT_THAT(result.reason, StartsWith("[convolution] stride 3"));
}

TEST_F(ConversationTest, another_protocol_or_another_backend_is_refused) {
  EXPECT_EQ(with("old_protocol").reason_code, ReasonCode::protocol_version);
  const ConversationResult impostor = with("impostor");
  EXPECT_EQ(impostor.reason_code, ReasonCode::protocol_broken);
  EXPECT_THAT(impostor.reason, HasSubstr("'somebody'"));
}

TEST_F(ConversationTest, an_exit_gives_code_and_last_words) {
  const ConversationResult result = with("exits");
  EXPECT_EQ(result.status, Status::failed);
  EXPECT_THAT(result.reason, AllOf(HasSubstr("code 3"), HasSubstr("no such luck")));
}

TEST_F(ConversationTest, a_failure_after_the_last_answer_counts) {
  EXPECT_EQ(with("fails_at_bye").status, Status::failed);
}

TEST_F(ConversationTest, OneThatDoesNotEndAfterItsLastAnswerTimedOut) {
  const ConversationResult result = with("hang_at_bye", 20, std::nullopt, 0.2);
  EXPECT_EQ(result.status, Status::timed_out);
  EXPECT_EQ(result.reason_code, ReasonCode::time_limit);
  EXPECT_THAT(result.reason, HasSubstr("did not end within 0.2 s"));
}

TEST_F(ConversationTest, a_missing_worker_is_unavailable) {
  ConversationPlan plan;
  plan.worker.command = {"/no/such/worker"};
  plan.worker.cell_folder = folder_;
  const ConversationResult result = converse(plan);
  EXPECT_EQ(result.status, Status::unavailable);
  EXPECT_EQ(result.reason_code, ReasonCode::worker_not_started);
  EXPECT_THAT(result.reason, HasSubstr("/no/such/worker"));
}

TEST_F(ConversationTest, waiting_costs_the_conductor_no_cpu) {
  const auto cpu = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  const double before = cpu();
  with("hang", 1.5);
  EXPECT_LT(cpu() - before, 0.01 * 1.5 + 0.02);  // 1 %, and the work of starting and killing it
}

}  // namespace
}  // namespace assay

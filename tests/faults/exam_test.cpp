// Exams with an oracle that answers with zeros, and workers that do too.
#include "harness/conductor/fork/exams.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/conductor/fork/core_watch.hpp"
#include "harness/conductor/fork/fork.hpp"
#include "harness/core/io/safetensors.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ExamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("ASSAY_CACHE", (folder_ / "cache").c_str(), 1);
    registry_ = find_backends_in({FAULT_BACKENDS, ZERO_ORACLE}, {});
    ASSERT_THAT(registry_.faults, IsEmpty());
    ASSERT_NE(registry_.oracle(), nullptr);
  }

  Cell cell(const std::string& settings) {
    const RunConfig config = config_from_json(
        nlohmann::json::parse(R"({"backend": "fault", "threads": 1, "blocks": 3, )" + settings + "}"),
        "test.json");
    settings_ = settings_of(config);
    return expand(config, registries_).cells.at(0);
  }
  Cell inference(const std::string& mode) {
    return cell(R"("workload": "mlp", "dataset": "synthetic", "task": "infer", "mode": ")" + mode + '"');
  }
  ForkContext context() {
    ForkContext made{folder_ / "scratch", registries_, settings_, data_, exams_};
    made.cores = &cores_;
    return made;
  }

  TemporaryFolder folder_;
  Registries registries_;
  BackendRegistry& registry_ = registries_.backends;
  RunSettings settings_;
  DatasetShelf data_{std::vector<fs::path>{}};
  Exams exams_{folder_ / "exams"};
  CoreWatch cores_{CoreWatch::Means{.pause = [](CoreWatch::Seconds) { return false; }}};
};

TEST_F(ExamTest, AWorkerWithTheOraclesAnswersPasses) {
  const ForkOutcome outcome = time_cell(inference("zeros"), 0, context(), nullptr);
  EXPECT_EQ(outcome.fork.status, Status::ok) << outcome.fork.reason;
  EXPECT_TRUE(outcome.verified.passed) << outcome.verified.reason;
}

TEST_F(ExamTest, RefusesAWorkerThatRewritesAnEpochPlan) {
  const Fork fork = time_cell(inference("rewrites_a_plan"), 0, context(), nullptr).fork;
  EXPECT_EQ(fork.reason_code, ReasonCode::exam_changed);
  EXPECT_THAT(fork.reason, HasSubstr("epochs/0001.plan.npy"));
}

TEST_F(ExamTest, RefusesAWorkerThatRewritesOperands) {
  const auto op = [&](const std::string& mode) {
    return cell(R"("workload": "op/tanh", "task": "infer", "cache": "warm", "size": "65536", "mode": ")" +
                mode + '"');
  };
  const Fork right = time_cell(op("zeros"), 0, context(), nullptr).fork;
  EXPECT_EQ(right.status, Status::ok) << right.reason;
  const Fork fork = time_cell(op("rewrites_operands"), 0, context(), nullptr).fork;
  EXPECT_EQ(fork.reason_code, ReasonCode::exam_changed);
  EXPECT_THAT(fork.reason, HasSubstr("data/inputs.npy"));
}

TEST_F(ExamTest, AsksWhatASingleOpTakesOnAGpuAfterItsExam) {
  const auto timed = [&](const std::string& options, bool quick = false) {
    std::vector<protocol::Verb> verbs;
    const Cell asked_cell = cell(options);
    settings_.quick = quick;
    ForkContext watched = context();
    watched.watch.phase = [&](protocol::Verb verb) { verbs.push_back(verb); };
    Fork fork = time_cell(asked_cell, 0, watched, nullptr).fork;
    const auto asked = std::ranges::find(verbs, protocol::Verb::time_device);
    EXPECT_EQ(asked != verbs.end(), fork.device_timed.has_value()) << options;
    if (asked != verbs.end()) {
      EXPECT_EQ(*std::prev(asked), protocol::Verb::verify) << options;
    }
    return fork;
  };
  const std::string op = R"("workload": "op/tanh", "task": "infer", "cache": "warm", "size": "65536", )";
  const Fork fork = timed(op + R"("device": "cuda", "mode": "zeros")");
  EXPECT_EQ(fork.status, Status::ok) << fork.reason;
  ASSERT_TRUE(fork.device_timed);
  EXPECT_EQ(fork.device_timed->steps, 1000);
  EXPECT_GT(fork.spent->device, 0);
  const Fork without = timed(op + R"("device": "cuda", "mode": "device_with_a_reason")");
  EXPECT_EQ(without.status, Status::ok) << without.reason;
  ASSERT_TRUE(without.device_timed);
  EXPECT_EQ(without.device_timed->reason, "[time_device] why");
  EXPECT_FALSE(timed(op + R"("device": "cuda", "mode": "zeros")", true).device_timed) << "with --quick";
  EXPECT_FALSE(timed(op + R"("mode": "zeros")").device_timed) << "on the CPU";
  EXPECT_FALSE(
      timed(
          R"("workload": "mlp", "dataset": "synthetic", "task": "infer", "device": "cuda", "mode": "zeros")")
          .device_timed)
      << "a network";
}

TEST_F(ExamTest, RefusesAnswersOfTheOracleThatWereChanged) {
  const Cell asked = inference("zeros");
  ForkContext changing = context();
  changing.watch.phase = [&](protocol::Verb verb) {
    if (verb != protocol::Verb::run) return;
    const auto& file = exams_.of(asked, settings_.exam_seed_of(0), true, context()).exam.answers;
    std::vector<HostTensor> answers = read_safetensors(file);
    for (HostTensor& tensor : answers)
      if (tensor.name.starts_with("bound/")) std::ranges::fill(tensor.as<double>(), 1e9);
    write_safetensors(file, answers);
  };
  const Fork fork = time_cell(asked, 0, changing, nullptr).fork;
  EXPECT_EQ(fork.reason_code, ReasonCode::exam_changed);
  EXPECT_THAT(fork.reason, HasSubstr("the oracle's answers"));
}

TEST_F(ExamTest, DrawsABluntExamAgain) {
  const Cell asked = cell(R"("workload": "mlp", "dataset": "synthetic", "mode": "zeros")");
  const CheckSettings found = exams_.of(asked, 1, true, context()).settings;
  EXPECT_EQ(found.seed, 1'000'004U) << "the second draw";
  EXPECT_LT(found.loosest, loose_bound);
  EXPECT_FALSE(fs::exists(folder_ / "exams/0/0")) << "files of the first draw";
  EXPECT_TRUE(fs::exists(folder_ / "exams/0/1"));
}

TEST_F(ExamTest, DrawsOnceWhereStorageIsNarrow) {
  Cell asked = cell(R"("workload": "mlp", "dataset": "synthetic", "mode": "zeros")");
  asked.axes.precision = PrecisionKind::bf16;
  const CheckSettings found = exams_.of(asked, 1, true, context()).settings;
  EXPECT_EQ(found.seed, 1U);
  EXPECT_GT(found.loosest, loose_bound);
}

TEST(DigestsOf, LeavesOutLargerFilesAndFolders) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "below");
  std::ofstream(folder / "small") << "12345";
  std::ofstream(folder / "large") << "123456";
  EXPECT_EQ(digests_of(folder.path()).size(), 2U);
  const auto small = digests_of(folder.path(), 5);
  ASSERT_EQ(small.size(), 1U);
  EXPECT_TRUE(small.contains("small"));
}

}  // namespace
}  // namespace assay

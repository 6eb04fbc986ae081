#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "harness/conductor/check/tolerance.hpp"
#include "tests/unit/conductor/check/answered_exam.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;

const TensorVerdict& tensor(const Equivalence& result, const std::string& name) {
  for (const TensorVerdict& verdict : result.tensors) {
    if (verdict.name == name) return verdict;
  }
  throw std::runtime_error("no verdict on " + name);
}

TEST(Equivalence, passes_answers_that_are_rounded_to_f32) {
  AnsweredExam exam;
  const Equivalence result = exam.judged();
  EXPECT_TRUE(result.checked);
  EXPECT_TRUE(result.passed) << result.reason;
  EXPECT_LE(result.worst, 1);
  EXPECT_TRUE(result.reason.empty()) << result.reason;
}

TEST(Equivalence, judges_every_expected_tensor) {
  AnsweredExam exam;
  const Equivalence result = exam.judged();
  for (const ExpectedTensor& expected : exam.expected())
    EXPECT_LE(tensor(result, expected.name).ratio, 1) << expected.name;
  for (const std::string& name : exam.continued()) EXPECT_EQ(tensor(result, name).ratio, 0) << name;
  EXPECT_EQ(result.tensors.size(), exam.expected().size() + exam.continued().size());
}

TEST(Equivalence, fails_a_run_that_comes_elsewhere_when_it_is_not_waited_for) {
  for (const bool missing : {false, true}) {
    AnsweredExam exam;
    const std::string name = "continuation/unwaited/fc1.weight.v";
    if (missing)
      exam.lose(name);
    else
      for (float& value : exam.worker(name).as<float>()) value += 0.01f;  // a tenth of the movement
    const Equivalence result = exam.judged();
    EXPECT_FALSE(result.passed);
    EXPECT_THAT(result.reason, HasSubstr("continuation/fc1.weight.v"));
  }
}

TEST(Equivalence, lets_a_continued_run_drift_by_a_hundredth) {
  AnsweredExam exam;
  for (float& value : exam.worker("continuation/unwaited/fc1.weight").as<float>()) value += 0.0005f;
  EXPECT_TRUE(exam.judged().passed);
}

TEST(Equivalence, judges_a_mean_of_squares_by_its_root) {
  const std::string name = "last/moment/conv1.weight.v";
  for (const double seen : {1e-3, 1e-5}) {
    AnsweredExam exam;
    float& element = exam.worker(name).as<float>()[0];
    exam.bound(name, seen);
    element = static_cast<float>(std::pow(std::sqrt(element) + 1e-3, 2));
    EXPECT_EQ(exam.judged().passed, seen == 1e-3) << seen;
  }
  AnsweredExam exam;
  exam.worker(name).as<float>()[0] = -1e-12f;
  EXPECT_EQ(tensor(exam.judged(), name).ratio, beyond_measure);
}

TEST(Equivalence, allows_what_elements_on_the_other_side_of_a_tie_change) {
  const std::string name = "last/moment/conv1.weight.m";
  for (const double error : {0.0, 0.1}) {
    AnsweredExam exam;
    exam.worker(name).as<float>()[0] += 1e-3f;
    exam.flips(name, error);
    EXPECT_EQ(exam.judged().passed, error > 0) << error;
  }
}

TEST(Equivalence, says_how_many_ties_the_oracle_counted) {
  AnsweredExam exam;
  EXPECT_TRUE(exam.judged().ties.empty());
  exam.count_ties("relu", 3, 64);
  const Equivalence result = exam.judged();
  ASSERT_EQ(result.ties.size(), 1u);
  EXPECT_EQ(result.ties[0].op, "relu");
  EXPECT_EQ(result.ties[0].tipped, 3);
  EXPECT_EQ(result.ties[0].elements, 64);
}

TEST(Equivalence, fails_when_any_single_tensor_is_off) {
  AnsweredExam names;
  for (const ExpectedTensor& expected : names.expected()) {
    AnsweredExam exam;
    float& element = exam.worker(expected.name).as<float>()[0];
    element += 0.01f + 0.01f * std::abs(element);
    const Equivalence result = exam.judged();
    EXPECT_FALSE(result.passed) << expected.name;
    EXPECT_GT(result.worst, 1) << expected.name;
    EXPECT_THAT(result.reason, HasSubstr(expected.name));
  }
}

TEST(Equivalence, names_the_tensor_that_is_missing) {
  AnsweredExam exam;
  exam.lose("first/parameter/fc1.weight");
  const Equivalence result = exam.judged();
  EXPECT_FALSE(result.passed);
  EXPECT_THAT(result.reason, HasSubstr("first/parameter/fc1.weight is missing"));
  EXPECT_EQ(result.worst, beyond_measure);
}

TEST(Equivalence, fails_a_number_that_is_not_finite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    AnsweredExam exam;
    exam.worker("extreme/loss").as<float>()[0] = bad;
    const Equivalence result = exam.judged();
    EXPECT_FALSE(result.passed);
    EXPECT_THAT(result.reason, HasSubstr("not finite"));
  }
}

TEST(Equivalence, fails_another_shape_or_type) {
  AnsweredExam exam;
  exam.worker("first/parameter/fc1.weight").type.shape = {8, 3};
  EXPECT_THAT(exam.judged().reason, HasSubstr("f32 (8, 3), but must be f32 (3, 8)"));

  AnsweredExam other;
  HostTensor& loss = other.worker("first/loss");
  loss = HostTensor::zeros(loss.name, {DType::f64, {}});
  EXPECT_THAT(other.judged().reason, HasSubstr("f64"));
}

TEST(Equivalence, accepts_a_scalar_of_one_dimension) {
  AnsweredExam exam;
  exam.worker("first/loss").type.shape = {1};
  EXPECT_TRUE(exam.judged().passed);
}

TEST(Equivalence, fails_a_file_of_another_format) {
  AnsweredExam exam;
  exam.write();
  std::filesystem::resize_file(exam.worker_file(), std::filesystem::file_size(exam.worker_file()) / 2);
  Equivalence result = judge(exam.exam(), exam.program(), exam.worker_file());
  EXPECT_FALSE(result.passed);
  EXPECT_THAT(result.reason, HasSubstr("has no answers"));

  std::filesystem::remove(exam.worker_file());
  result = judge(exam.exam(), exam.program(), exam.worker_file());
  EXPECT_FALSE(result.passed);
}

TEST(Equivalence, sees_rows_in_another_order) {
  AnsweredExam exam;
  HostTensor& logits = exam.worker("evaluation/logits");
  std::swap_ranges(logits.as<float>().begin(), logits.as<float>().begin() + 3,
                   logits.as<float>().begin() + 3);
  EXPECT_FALSE(exam.judged().passed);
}

TEST(Equivalence, judges_inference_by_the_logits_of_every_slot) {
  AnsweredExam exam({}, Task::infer);
  EXPECT_TRUE(exam.judged().passed);
  EXPECT_EQ(exam.judged().tensors.size(), 1u);
  exam.worker("logits").as<float>().back() += 0.001f;
  EXPECT_FALSE(exam.judged().passed);
}

// What a run computed: two rows of the batch of its last step, all logits near one.
class RunOfInference : public ::testing::Test {
 protected:
  // run_bound: the largest error of the oracle's run; exam_bound: of those of the exam.
  double ratio(float error, double run_bound, double exam_bound) {
    AnsweredExam exam({}, Task::infer);
    exam.bound("logits", exam_bound);
    const std::filesystem::path run = exam.folder() / "run";
    exam.add("run/last/logits", {8, 3});
    std::ranges::fill(exam.worker("run/last/logits").as<float>(), 1 + error);
    write_run_exam({.exam = run, .rows = {2, 5}}, HostTensor::zeros("inputs", {DType::f32, {2, 1, 4, 4}}),
                   exam.folder() / "check/state.safetensors");
    HostTensor logits = HostTensor::zeros("logits", {DType::f64, {1, 2, 3}}),
               bound = HostTensor::zeros("bound/logits", {DType::f64, {2}});
    std::ranges::fill(logits.as<double>(), 1);
    std::ranges::fill(bound.as<double>(), run_bound);
    write_safetensors(exam.folder() / "run.safetensors", std::vector{logits, bound});
    exam.write();
    const RunAudit audit{
        .results = RunResults{.exam = run, .answers = exam.folder() / "run.safetensors", .rows = {2, 5}}};
    const Equivalence judged = judge(exam.exam(), exam.program(), exam.worker_file(), audit);
    return std::ranges::find(judged.tensors, "run/last/logits", &TensorVerdict::name)->ratio;
  }
};

TEST_F(RunOfInference, IsJudgedByTheErrorsOfItsOwnRows) {
  EXPECT_LT(ratio(1e-5F, 1e-6, 0), 1);
  EXPECT_GT(ratio(1e-4F, 1e-6, 0), 1);
}

TEST_F(RunOfInference, MayBeAsFarOffAsTheExamsRuns) {
  EXPECT_LT(ratio(1e-5F, 0, 1e-6), 1);
  EXPECT_GT(ratio(1e-4F, 0, 1e-6), 1);
}

TEST(Equivalence, JudgesWhatWasReadOfARun) {
  AnsweredExam exam({}, Task::infer);
  const std::filesystem::path run = exam.folder() / "run";
  RunResults asked{
      .exam = run, .answers = exam.folder() / "run.safetensors", .rows = {2, 5}, .read = {{1, 0}}};
  write_run_exam(asked, HostTensor::zeros("inputs", {DType::f32, {4, 1, 4, 4}}),
                 exam.folder() / "check/state.safetensors");
  HostTensor logits = HostTensor::zeros("logits", {DType::f64, {2, 2, 3}}),
             bound = HostTensor::zeros("bound/logits", {DType::f64, {2}});
  std::ranges::fill(logits.as<double>().subspan(6), 1);
  std::ranges::fill(bound.as<double>(), 1e-6);
  write_safetensors(asked.answers, std::vector{logits, bound});
  exam.add("run/last/logits", {8, 3});
  exam.write();
  const auto ratio = [&](const char* tensor) {
    const Equivalence judged =
        judge(exam.exam(), exam.program(), exam.worker_file(), RunAudit{.results = asked});
    return std::ranges::find(judged.tensors, tensor, &TensorVerdict::name)->ratio;
  };
  EXPECT_GT(ratio("run/read/logits"), 1e6) << "the worker does not hand it over";
  exam.add("run/read/logits", {8, 3});
  exam.write();
  EXPECT_GT(ratio("run/read/logits"), 1);
  std::ranges::fill(exam.worker("run/read/logits").as<float>(), 1);
  exam.write();
  EXPECT_LT(ratio("run/read/logits"), 1);
  EXPECT_LT(ratio("run/last/logits"), 1);
  asked.read.reset();
  EXPECT_EQ(judge(exam.exam(), exam.program(), exam.worker_file(), RunAudit{.results = asked}).tensors.size(),
            2U)
      << "nothing was read";
}

TEST(Equivalence, refuses_an_oracle_without_an_answer) {
  AnsweredExam exam;
  exam.write();
  write_safetensors(exam.exam().answers,
                    std::vector<HostTensor>{HostTensor::zeros("first/loss", {DType::f64, {}})});
  EXPECT_THROW(judge(exam.exam(), exam.program(), exam.worker_file()), std::runtime_error);
}

TEST(Equivalence, names_the_gradient_with_the_widest_bound) {
  AnsweredExam exam;
  exam.write();
  EXPECT_LT(looseness(exam.exam(), exam.program()).bound, 1e-5);
  exam.bound("gradient/fc1.weight", 0.05);
  exam.write();
  Looseness found = looseness(exam.exam(), exam.program());
  EXPECT_EQ(found.parameter, "fc1.weight");
  EXPECT_GT(found.bound, 0.05);
  exam.flips("gradient/conv1.weight", 2);
  exam.write();
  found = looseness(exam.exam(), exam.program());
  EXPECT_EQ(found.parameter, "conv1.weight");
  EXPECT_GT(found.bound, 2);
}

TEST(Equivalence, CountsAfterChaoticStepsWhatMayBeOffByItsOwnSize) {
  const std::string name = "last/parameter/fc1.weight";
  AnsweredExam exam;
  exam.bound(name, 0.5);
  for (float& value : exam.worker(name).as<float>()) value *= 1000;
  EXPECT_FALSE(exam.judged().passed) << "the loss is known better";
  exam.bound("last/loss", 0.5);
  const Equivalence found = exam.judged();
  EXPECT_TRUE(found.passed) << found.reason;
  EXPECT_EQ(found.unjudged, 2);
  EXPECT_TRUE(std::ranges::none_of(found.tensors, [&](const auto& tensor) { return tensor.name == name; }));
  exam.worker(name).as<float>()[0] = NAN;
  EXPECT_FALSE(exam.judged().passed);
  exam.worker(name).as<float>()[0] = 0;
  exam.bound("first/parameter/fc1.weight", 0.5);
  for (float& value : exam.worker("first/parameter/fc1.weight").as<float>()) value *= 1000;
  EXPECT_FALSE(exam.judged().passed) << "the first step is judged";
}

TEST(Equivalence, leaves_a_gradient_of_only_rounding_out_of_looseness) {
  AnsweredExam exam;
  std::ranges::fill(exam.oracle("gradient/conv1.bias").as<double>(), 1e-18);
  exam.bound("gradient/conv1.bias", 1e-3);
  exam.write();
  EXPECT_LT(looseness(exam.exam(), exam.program()).bound, 1e-5);
}

}  // namespace
}  // namespace assay

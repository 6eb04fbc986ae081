#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "harness/conductor/check/tolerance.hpp"
#include "tests/unit/conductor/check/answered_cell.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;

OptimizerSpec sgd(double momentum = 0.9, double weight_decay = 0) {
  OptimizerSpec spec;
  spec.kind = "sgd";
  spec.momentum = momentum;
  spec.weight_decay = weight_decay;
  return spec;
}

const TensorVerdict& tensor(const Equivalence& result, const std::string& name) {
  for (const TensorVerdict& verdict : result.tensors) {
    if (verdict.name == name) return verdict;
  }
  throw std::runtime_error("no verdict on " + name);
}

TEST(Equivalence, passes_answers_that_are_rounded_to_f32) {
  AnsweredCell cell;
  for (const char* phase : {"check", "verify"}) {
    const Equivalence result = cell.judged(phase);
    EXPECT_TRUE(result.checked);
    EXPECT_TRUE(result.passed) << result.reason;
    EXPECT_LE(result.worst, 1);
    EXPECT_TRUE(result.reason.empty()) << result.reason;
    EXPECT_GT(result.tensors.size(), 8u);
  }
}

TEST(Equivalence, judges_every_expected_tensor) {
  AnsweredCell cell;
  const Equivalence result = cell.judged("check");
  for (const ExpectedTensor& expected : expected_tensors(cell.program(), Task::train, "check", 3)) {
    EXPECT_LE(tensor(result, "check/" + expected.name).ratio, 1) << expected.name;
  }
}

TEST(Equivalence, judges_a_mean_of_squares_by_its_root) {
  for (const double seen : {1e-3, 1e-5}) {
    AnsweredCell cell;
    const std::string name = "moment/conv1.weight.v";
    const double exact = cell.worker("verify", name).as<float>()[0];
    cell.bound("verify", name, seen);
    cell.worker("verify", name).as<float>()[0] = static_cast<float>(std::pow(std::sqrt(exact) + 1e-3, 2));
    EXPECT_EQ(cell.judged("verify").passed, seen == 1e-3) << seen;
  }
  AnsweredCell cell;
  cell.worker("verify", "moment/conv1.weight.v").as<float>()[0] = -1e-12f;
  EXPECT_EQ(tensor(cell.judged("verify"), "verify/moment/conv1.weight.v").ratio, beyond_measure);
}

TEST(Equivalence, says_how_many_ties_the_oracle_counted) {
  AnsweredCell cell;
  EXPECT_TRUE(cell.judged("check").ties.empty());
  cell.count_ties("relu", 3, 64);
  const Equivalence result = cell.judged("check");
  ASSERT_EQ(result.ties.size(), 1u);
  EXPECT_EQ(result.ties[0].op, "relu");
  EXPECT_EQ(result.ties[0].tipped, 3);
  EXPECT_EQ(result.ties[0].elements, 64);
  EXPECT_TRUE(cell.judged("verify").ties.empty()) << "they are those of the gradients before timing";
}

TEST(Equivalence, fails_when_any_single_tensor_is_off) {
  for (const char* phase : {"check", "verify"}) {
    AnsweredCell names;
    for (const ExpectedTensor& expected : expected_tensors(names.program(), Task::train, phase, 3)) {
      AnsweredCell cell;
      float& element = cell.worker(phase, expected.name).as<float>()[0];
      element += 0.01f + 0.01f * std::abs(element);
      const Equivalence result = cell.judged(phase);
      EXPECT_FALSE(result.passed) << expected.name;
      EXPECT_GT(result.worst, 1) << expected.name;
      EXPECT_FALSE(result.reason.empty());
    }
  }
}

TEST(Equivalence, names_the_tensor_that_is_missing) {
  AnsweredCell cell;
  cell.lose("check", "gradient/fc1.weight");
  const Equivalence result = cell.judged("check");
  EXPECT_FALSE(result.passed);
  EXPECT_THAT(result.reason, HasSubstr("check/gradient/fc1.weight is missing"));
  EXPECT_EQ(result.worst, beyond_measure);
}

TEST(Equivalence, fails_a_number_that_is_not_finite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    AnsweredCell cell;
    cell.worker("verify", "losses").as<float>()[1] = bad;
    const Equivalence result = cell.judged("verify");
    EXPECT_FALSE(result.passed);
    EXPECT_THAT(result.reason, HasSubstr("not finite"));
  }
}

TEST(Equivalence, fails_another_shape_or_type) {
  AnsweredCell cell;
  cell.worker("check", "gradient/fc1.weight").type.shape = {8, 3};
  EXPECT_THAT(cell.judged("check").reason, HasSubstr("f32 (8, 3) where f32 (3, 8) is asked"));

  AnsweredCell other;
  HostTensor& loss = other.worker("check", "training/loss");
  loss = HostTensor::zeros(loss.name, {DType::f64, {}});
  EXPECT_THAT(other.judged("check").reason, HasSubstr("f64"));
}

TEST(Equivalence, accepts_a_scalar_of_one_dimension) {
  AnsweredCell cell;
  cell.worker("check", "training/loss").type.shape = {1};
  EXPECT_TRUE(cell.judged("check").passed);
}

TEST(Equivalence, fails_a_file_that_is_none) {
  AnsweredCell cell;
  cell.judged("check");
  const std::filesystem::path file = cell.folder() / "results" / "check.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  Equivalence result = judge(cell.folder(), cell.oracle_file(), "check", cell.program());
  EXPECT_FALSE(result.passed);
  EXPECT_THAT(result.reason, HasSubstr("has no answers"));

  std::filesystem::remove(file);
  result = judge(cell.folder(), cell.oracle_file(), "check", cell.program());
  EXPECT_FALSE(result.passed);
}

TEST(Equivalence, sees_rows_in_another_order) {
  AnsweredCell cell;
  HostTensor& logits = cell.worker("check", "evaluation/logits");
  std::swap_ranges(logits.as<float>().begin(), logits.as<float>().begin() + 3,
                   logits.as<float>().begin() + 3);
  EXPECT_FALSE(cell.judged("check").passed);
}

TEST(Equivalence, sees_an_update_twice_as_large_beside_a_right_gradient) {
  for (const OptimizerSpec& optimizer : {OptimizerSpec{}, sgd(), sgd(0)}) {
    AnsweredCell cell(optimizer);
    cell.update_from_gradients(1, 2);
    const Equivalence result = cell.judged("check");
    EXPECT_FALSE(result.passed);
    EXPECT_GT(tensor(result, "check/updated/fc1.weight").ratio, 1);
    EXPECT_LE(tensor(result, "check/gradient/fc1.weight").ratio, 1);
  }
}

TEST(Equivalence, sees_a_gradient_twice_as_large_that_adam_hides_in_the_update) {
  AnsweredCell cell;
  cell.update_from_gradients(2, 1);
  const Equivalence result = cell.judged("check");
  EXPECT_FALSE(result.passed);
  EXPECT_GT(tensor(result, "check/gradient/fc1.weight").ratio, 1);
  EXPECT_LE(tensor(result, "check/updated/fc1.weight").ratio, 1);
}

TEST(Equivalence, judges_inference_by_its_logits_alone) {
  AnsweredCell cell({}, Task::infer);
  EXPECT_TRUE(cell.judged("check").passed);
  EXPECT_TRUE(cell.judged("verify").passed);
  EXPECT_EQ(cell.judged("verify").tensors.size(), 1u);
  cell.worker("verify", "logits").as<float>()[5] += 0.001f;
  EXPECT_FALSE(cell.judged("verify").passed);
}

TEST(Equivalence, refuses_an_oracle_without_an_answer) {
  AnsweredCell cell;
  cell.judged("check");
  write_safetensors(cell.oracle_file(),
                    std::vector<HostTensor>{HostTensor::zeros("check/training/loss", {DType::f64, {}})});
  EXPECT_THROW(judge(cell.folder(), cell.oracle_file(), "check", cell.program()), std::runtime_error);
}

}  // namespace
}  // namespace assay

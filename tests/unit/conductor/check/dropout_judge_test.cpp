#include "harness/conductor/check/dropout_judge.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/conductor/check/tolerance.hpp"
#include "tests/unit/conductor/check/answered_exam.hpp"

namespace assay {
namespace {

// An exam in which the program that draws was compared, in two steps by what they update and in three by their losses.
// Each tensor has the norm 1, and its step moved it by 0.1.
class TimedExam : public AnsweredExam {
 public:
  explicit TimedExam(const OptimizerSpec& optimizer = {}) : AnsweredExam(optimizer) {
    const Graph& graph = program().training;
    for (const ValueId id : graph.with_role(Role::parameter)) {
      const Value& value = graph.value(id);
      parameter_norms_[value.name] = norm("gradient/" + value.name);
      tell(value.name);
      for (const std::string& moment : optimizer.moments()) tell(value.name + "." + moment);
    }
    for (const ValueId id : graph.with_role(Role::state)) tell(graph.value(id).name);
    const std::span<float> losses = add("timed/loss", {3, 2}).as<float>();
    std::ranges::fill(losses, 2.0f);
  }

  // The L2 distance in one of the steps.
  void distance(const std::string& name, std::size_t step, double l2) {
    worker("timed/" + name).as<float>()[4 * step + 1] = static_cast<float>(l2);
  }
  double gradient_norm(const std::string& parameter) const { return parameter_norms_.at(parameter); }
  double ratio(const std::string& name) {
    for (const TensorVerdict& verdict : judged().tensors)
      if (verdict.name == "timed/" + name) return verdict.ratio;
    throw std::runtime_error("no verdict on " + name);
  }

 private:
  void tell(const std::string& name) {
    const std::span<float> numbers = add("timed/" + name, {2, 4}).as<float>();
    for (const std::size_t row : {0u, 4u}) {
      numbers[row + 2] = 0.1f;
      numbers[row + 3] = 1;
    }
  }
  double norm(const std::string& name) {
    double squares = 0;
    for (const double value : to_doubles(oracle(name))) squares += value * value;
    return std::sqrt(squares);
  }

  std::map<std::string, double> parameter_norms_;
};

TEST(DropoutJudge, PassesAProgramThatComputesTheSame) {
  TimedExam exam;
  const Equivalence result = exam.judged();
  EXPECT_TRUE(result.passed) << result.reason;
  EXPECT_TRUE(has_timed_dropout(result));
}

TEST(DropoutJudge, JudgesNothingThatNoWorkerTold) {
  AnsweredExam exam;
  EXPECT_FALSE(has_timed_dropout(exam.judged()));
}

TEST(DropoutJudge, FindsAnyTensorThatIsApartInBothSteps) {
  for (const char* name : {"conv1.weight", "fc1.weight.m", "fc1.bias.v", "bn1.running_mean"}) {
    TimedExam exam;
    exam.distance(name, 0, 0.1);
    EXPECT_LE(exam.ratio(name), 1) << name << ": a tie may be in one step";
    exam.distance(name, 1, 0.1);
    EXPECT_GT(exam.ratio(name), 1) << name;
  }
}

TEST(DropoutJudge, FindsALossThatIsApartInAnyStep) {
  for (const std::size_t step : {0u, 1u, 2u}) {
    TimedExam exam;
    exam.worker("timed/loss").as<float>()[2 * step] *= 1.0001f;
    EXPECT_GT(exam.ratio("loss"), 1) << step;
  }
}

TEST(DropoutJudge, AllowsAHundredthOfWhatAGradientMoves) {
  TimedExam exam;
  const double gradient = exam.gradient_norm("fc1.weight");
  for (const std::size_t step : {0u, 1u}) {
    exam.distance("fc1.weight.m", step, 0.1 * 0.01 * gradient);
    exam.distance("fc1.weight.v", step, std::sqrt(0.001) * 0.01 * gradient);
    exam.distance("fc1.weight", step, 0.1 / std::sqrt(0.001) * 0.01 * 0.1);
  }
  for (const char* name : {"fc1.weight.m", "fc1.weight.v", "fc1.weight"}) {
    EXPECT_LE(exam.ratio(name), 1) << name;
    EXPECT_GT(exam.ratio(name), 0.8) << name;
  }
}

TEST(DropoutJudge, RefusesDistancesThatNobodyHas) {
  for (const float bad : {-1.0f, INFINITY}) {
    TimedExam exam;
    exam.worker("timed/fc1.weight").as<float>()[2] = bad;
    EXPECT_EQ(exam.ratio("fc1.weight"), beyond_measure);
  }
  TimedExam exam;
  exam.lose("timed/fc1.weight");
  EXPECT_EQ(exam.ratio("fc1.weight"), beyond_measure) << "some tensors and not all";
  exam.worker("timed/loss").as<float>()[0] = NAN;
  EXPECT_EQ(exam.ratio("loss"), beyond_measure);
}

}  // namespace
}  // namespace assay

#include "harness/conductor/check/dropout_judge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/check/tolerance.hpp"
#include "tests/unit/conductor/check/answered_exam.hpp"

namespace assay {
namespace {

// An exam in which the program that draws was compared, in two steps by what they update and in three by their losses.
// A step moved each element by a tenth.
class TimedExam : public AnsweredExam {
 public:
  explicit TimedExam(const OptimizerSpec& optimizer = {}) : AnsweredExam(optimizer) {
    for (const HostTensor& tensor : read_safetensors(folder() / "check/state.safetensors")) {
      Shape two = tensor.type.shape;
      two.insert(two.begin(), 2);
      const std::span<const float> start = tensor.as<float>();
      for (const char* program : {"drawn/", "taken/"}) {
        const std::span<float> values = add(fmt::format("timed/{}{}", program, tensor.name), two).as<float>();
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = start[i % start.size()] + 0.1f;
      }
    }
    std::ranges::fill(add("timed/loss", {3, 2}).as<float>(), 2.0f);
  }

  // Moves an element of the program that draws, in one of the steps.
  void move(const std::string& name, std::size_t step, double by) {
    const std::span<float> values = worker("timed/drawn/" + name).as<float>();
    float& first = values[step * values.size() / 2];
    first = static_cast<float>(first + by);
  }
  double norm_of_taken(const std::string& name) {
    double squares = 0;
    const std::span<const float> both = worker("timed/taken/" + name).as<float>();
    for (const float value : both.first(both.size() / 2)) squares += value * static_cast<double>(value);
    return std::sqrt(squares);
  }
  double gradient_norm(const std::string& parameter) {
    double squares = 0;
    for (const double value : to_doubles(oracle("gradient/" + parameter))) squares += value * value;
    return std::sqrt(squares);
  }
  double ratio(const std::string& name) {
    for (const TensorVerdict& verdict : judged().tensors)
      if (verdict.name == "timed/" + name) return verdict.ratio;
    throw std::runtime_error("no verdict on " + name);
  }
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
    exam.move(name, 0, 0.1 * exam.norm_of_taken(name));
    EXPECT_LE(exam.ratio(name), 1) << name << ": a tie may be in one step";
    exam.move(name, 1, 0.1 * exam.norm_of_taken(name));
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
  const std::size_t elements = exam.worker("timed/taken/fc1.weight").as<float>().size() / 2;
  const double moved = 0.1 * std::sqrt(static_cast<double>(elements));
  for (const std::size_t step : {0u, 1u}) {
    exam.move("fc1.weight.m", step, 0.1 * 0.01 * gradient);
    exam.move("fc1.weight", step, 0.1 / std::sqrt(0.001) * 0.01 * moved);
  }
  for (const char* name : {"fc1.weight.m", "fc1.weight"}) {
    EXPECT_LE(exam.ratio(name), 1) << name;
    EXPECT_GT(exam.ratio(name), 0.8) << name;
  }
}

TEST(DropoutJudge, ComparesTheRootsOfMeansOfSquares) {
  TimedExam exam;
  const double root = std::sqrt(exam.worker("timed/drawn/fc1.bias.v").as<float>()[0]);
  const double by = std::sqrt(0.001) * 0.01 * exam.gradient_norm("fc1.bias");
  for (const std::size_t step : {0u, 1u}) exam.move("fc1.bias.v", step, std::pow(root + by, 2) - root * root);
  EXPECT_LE(exam.ratio("fc1.bias.v"), 1);
  EXPECT_GT(exam.ratio("fc1.bias.v"), 0.5);
  for (const std::size_t step : {0u, 1u}) exam.move("fc1.bias.v", step, -1);
  EXPECT_EQ(exam.ratio("fc1.bias.v"), beyond_measure) << "it is negative";
}

TEST(DropoutJudge, ComparesTheElementsThatItChose) {
  TimedExam exam;
  const ExamExcerpt excerpt{.elements = 2, .at = 0};
  const auto hand_over = [&](const std::string& name, float by) {
    for (const char* program : {"drawn/", "taken/"}) {
      HostTensor& tensor = exam.worker(fmt::format("timed/{}{}", program, name));
      const std::span<const float> all = tensor.as<float>();
      HostTensor some = HostTensor::zeros(tensor.name, {DType::f32, {2, 2}});
      for (std::size_t i = 0; i < 4; ++i) some.as<float>()[i] = all[i / 2 * all.size() / 2 + i % 2];
      tensor = std::move(some);
    }
    exam.move(name, 0, by);
    exam.move(name, 1, by);
  };
  for (const HostTensor& tensor : read_safetensors(exam.folder() / "check/state.safetensors"))
    hand_over(tensor.name, tensor.name == "fc1.weight.m" ? 0.1f : 0);
  exam.write();
  const Equivalence result =
      judge(exam.exam(), exam.program(), exam.worker_file(), RunAudit{.excerpt = excerpt});
  for (const TensorVerdict& verdict : result.tensors) {
    if (!verdict.name.starts_with("timed/")) continue;
    if (verdict.name == "timed/fc1.weight.m")
      EXPECT_GT(verdict.ratio, 1);
    else
      EXPECT_LE(verdict.ratio, 1) << verdict.name;
  }
}

TEST(DropoutJudge, RefusesStatesThatNobodyHas) {
  TimedExam exam;
  exam.worker("timed/taken/fc1.weight").as<float>()[0] = INFINITY;
  EXPECT_EQ(exam.ratio("fc1.weight"), beyond_measure);
  exam.lose("timed/drawn/fc1.bias");
  EXPECT_EQ(exam.ratio("fc1.bias"), beyond_measure) << "some tensors and not all";
  for (const char* program : {"drawn/", "taken/"}) {
    const std::string name = fmt::format("timed/{}fc1.weight.m", program);
    Shape many = exam.worker(name).type.shape;
    many[0] = 100;
    exam.lose(name);
    exam.add(name, many);
  }
  EXPECT_EQ(exam.ratio("fc1.weight.m"), beyond_measure) << "the best of a hundred steps";
  exam.worker("timed/loss").as<float>()[0] = NAN;
  EXPECT_EQ(exam.ratio("loss"), beyond_measure);
}

}  // namespace
}  // namespace assay

// The oracle of several ranks: batch norm by slices, compared with doubles that are computed here by hand.
#include "harness/graph/passes/slices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/reference/reference_backend.hpp"
#include "harness/conductor/check/exam.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/core/error.hpp"
#include "harness/core/numerics.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"
#include "harness/protocol/request.hpp"
#include "harness/worker/exam.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

constexpr std::size_t slice_classes = 3, slices = 2;
constexpr double momentum = 0.9, epsilon = 1e-5;

// An input of one channel, to which a parameter is added; a batch norm; its result is the logits.
Program small_program(std::int64_t batch) {
  const auto build = [&](bool training) {
    Graph graph("normalised");
    GraphBuilder builder(graph, training);
    const ValueId x = builder.input("inputs", {batch, 1, 1, slice_classes});
    const ValueId moved = builder.add(x, builder.parameter("shift", {1, 1, slice_classes}, "zeros"));
    const ValueId logits = builder.flatten(builder.batch_norm("bn", moved, momentum, epsilon));
    graph.add_output("logits", logits);
    if (training)
      graph.add_output("loss",
                       builder.softmax_cross_entropy(logits, builder.label("labels", {batch}), "loss"));
    return graph;
  };
  return {build(true), build(false), OptimizerSpec{}};
}

// One step of the exam by hand.
struct Step {
  double loss = 0, weight = 0, bias = 0;      // the last two: gradients
  std::array<double, slice_classes> shift{};  // gradient
  double mean = 0, variance = 0;              // of the first slice
};

Step step_by_hand(const ExamFeeds& feeds, std::size_t parts) {
  const auto given = [&](const char* name) {
    return to_doubles(*std::ranges::find(feeds.state, name, &HostTensor::name));
  };
  const double weight = given("bn.weight")[0], bias = given("bn.bias")[0];
  const std::vector<double> shift = given("shift");
  const FedBatch fed = feeds.batch(0);
  std::vector<double> x = to_doubles(fed.inputs);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += shift[i % slice_classes];
  const std::size_t rows = x.size() / slice_classes, part = x.size() / parts;
  Step step;
  for (std::size_t first = 0; first < x.size(); first += part) {
    double mean = 0, variance = 0;
    for (std::size_t i = first; i < first + part; ++i) mean += x[i] / static_cast<double>(part);
    for (std::size_t i = first; i < first + part; ++i)
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(part);
    if (first == 0) step.mean = mean, step.variance = variance;
    const double inverse = 1 / std::sqrt(variance + epsilon);
    std::vector<double> h(part), dy(part);
    for (std::size_t i = 0; i < part; ++i) h[i] = (x[first + i] - mean) * inverse;
    for (std::size_t row = 0; row < part / slice_classes; ++row) {
      double sum = 0;
      for (std::size_t c = 0; c < slice_classes; ++c)
        sum += std::exp(h[row * slice_classes + c] * weight + bias);
      const auto label = static_cast<std::size_t>(fed.labels.as<std::int32_t>()[first / slice_classes + row]);
      for (std::size_t c = 0; c < slice_classes; ++c) {
        const std::size_t i = row * slice_classes + c;
        const double share = std::exp(h[i] * weight + bias) / sum;
        if (c == label) step.loss -= std::log(share) / static_cast<double>(rows);
        dy[i] = (share - (c == label ? 1 : 0)) / static_cast<double>(rows);
      }
    }
    double dweight = 0, dbias = 0;
    for (std::size_t i = 0; i < part; ++i) dweight += dy[i] * h[i], dbias += dy[i];
    for (std::size_t i = 0; i < part; ++i)
      step.shift[i % slice_classes] +=
          weight * inverse * (dy[i] - (dbias + h[i] * dweight) / static_cast<double>(part));
    step.weight += dweight;
    step.bias += dbias;
  }
  return step;
}

class Slices : public ::testing::Test {
 protected:
  Slices() {
    const Program program = small_program(16);
    write_exam(folder_ / "exam", program, {.seed = 11, .distinct = 4, .ranks = slices});
    write_oracle_cell(folder_ / "oracle",
                      {folder_ / "exam", Task::train, PrecisionKind::fp32, 3, slices_of(program, slices)},
                      program, {});
    asked_ = *read_request(folder_ / "oracle/request.json").oracle;
    feeds_ = read_exam(folder_ / "oracle");
    CompileOptions options;
    options.mode = "graph";
    reference::ReferenceBackend oracle;
    answers_ = oracle_answers(oracle, with_batch(program, feeds_.batches.distinct), options,
                              {.emulated = precision_of(asked_.precision),
                               .perturbations = asked_.perturbations,
                               .slices = asked_.slices},
                              feeds_);
  }
  std::vector<double> answer(const std::string& name) const {
    return to_doubles(*std::ranges::find(answers_, name, &HostTensor::name));
  }
  double running(const char* name) const {
    return to_doubles(*std::ranges::find(feeds_.state, name, &HostTensor::name))[0];
  }

  TemporaryFolder folder_;
  OracleRequest asked_;
  ExamFeeds feeds_;
  std::vector<HostTensor> answers_;
};

TEST_F(Slices, AreNormalisedByTheirOwnStatistics) {
  EXPECT_EQ(asked_.slices, 2);
  ASSERT_EQ(feeds_.batches.distinct, 8) << "four of each rank";
  const Step step = step_by_hand(feeds_, slices);
  EXPECT_NEAR(answer("first/loss")[0], step.loss, 1e-12);
  EXPECT_NEAR(answer("gradient/bn.weight")[0], step.weight, 1e-12);
  EXPECT_NEAR(answer("gradient/bn.bias")[0], step.bias, 1e-12);
  for (std::size_t c = 0; c < slice_classes; ++c)
    EXPECT_NEAR(answer("gradient/shift")[c], step.shift[c], 1e-12) << c;
  const Step whole = step_by_hand(feeds_, 1);
  EXPECT_GT(std::abs(whole.weight - step.weight), 1e-4) << "statistics of the whole batch are others";
}

TEST_F(Slices, HaveTheRunningStatisticsOfTheFirst) {
  const Step step = step_by_hand(feeds_, slices);
  EXPECT_NEAR(answer("first/running/bn.running_mean")[0],
              momentum * running("bn.running_mean") + (1 - momentum) * step.mean, 1e-12);
  EXPECT_NEAR(answer("first/running/bn.running_variance")[0],
              momentum * running("bn.running_variance") + (1 - momentum) * step.variance, 1e-12);
}

TEST_F(Slices, KeepTheirSamplesInThePerturbedRuns) {
  for (const char* name :
       {"first/loss", "gradient/bn.weight", "first/running/bn.running_mean", "last/logits"})
    EXPECT_LT(answer(std::string("bound/") + name)[0], 1e-5) << name;
}

TEST(SlicedProgram, IsTheProgramItselfWithoutBatchNormOrWithOneSlice) {
  const Program program = small_program(8);
  EXPECT_EQ(to_json(with_slices(program, 1)), to_json(program));
  EXPECT_EQ(to_json(with_slices({program.inference, program.inference, {}}, 2)).at("training"),
            to_json(program).at("inference"))
      << "inference has the running statistics";
}

TEST(SlicedProgram, RejectsUnequalSlices) { EXPECT_THROW(with_slices(small_program(8), 3), GraphError); }

}  // namespace
}  // namespace assay

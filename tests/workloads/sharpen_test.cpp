#include "harness/worker/sharpen.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "backends/reference/reference_backend.hpp"
#include "harness/conductor/check/exam.hpp"
#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/error.hpp"
#include "harness/core/numerics.hpp"
#include "harness/graph/builder.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

// The logits that `network` adds to a graph, with a loss when training.
template <typename Network>
Program classifier(Network network) {
  const auto build = [&](bool training) {
    Graph graph("classifier");
    GraphBuilder builder(graph, training);
    const ValueId logits = network(builder);
    graph.add_output("logits", logits);
    if (training)
      graph.add_output("loss", builder.softmax_cross_entropy(logits, builder.label("labels", {8}), "loss"));
    return graph;
  };
  return {build(true), build(false), OptimizerSpec{}};
}

Program two_layers() {
  return classifier([](GraphBuilder& builder) {
    const ValueId x = builder.input("inputs", {8, 6});
    return builder.linear("fc2", builder.relu(builder.linear("fc1", x, 4), "relu1"), 3);
  });
}

HostTensor& tensor(ExamFeeds& feeds, const char* name) {
  return *std::ranges::find(feeds.state, name, &HostTensor::name);
}

// The first hidden unit is its bias, for any inputs.
ExamFeeds feeds_with(const Program& program, float bias) {
  const TemporaryFolder folder;
  write_exam(folder.path() / "check", program, {.seed = 3, .distinct = 8});
  ExamFeeds feeds = read_exam(folder.path());
  std::ranges::fill(tensor(feeds, "fc1.weight").as<float>().first(6), 0.0f);
  tensor(feeds, "fc1.bias").as<float>()[0] = bias;
  return feeds;
}

std::vector<HostTensor> sharpened(ExamFeeds& feeds, const Program& program) {
  reference::ReferenceBackend oracle;
  CompileOptions options;
  options.mode = "graph";
  return sharpen(feeds, oracle, program, options, precision_of(PrecisionKind::fp32));
}

TEST(Sharpen, MovesABiasUntilNoElementOfItsReluIsWithinRoundingOfZero) {
  const Program program = two_layers();
  ExamFeeds feeds = feeds_with(program, 1e-10f);
  const std::vector<HostTensor> moved = sharpened(feeds, program);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].name, "fc1.bias");
  const float bias = moved[0].as<float>()[0];
  EXPECT_GT(std::abs(bias), 1e-7f);
  EXPECT_LT(std::abs(bias), 1e-4f);
  EXPECT_EQ(tensor(feeds, "fc1.bias").as<float>()[0], bias);
  EXPECT_TRUE(sharpened(feeds, program).empty());
}

TEST(Sharpen, LeavesAnExamWithoutTiesAsItIs) {
  const Program program = two_layers();
  ExamFeeds feeds = feeds_with(program, 0.1f);
  EXPECT_TRUE(sharpened(feeds, program).empty());
}

std::vector<HostTensor> answers_of(const Program& program, const ExamFeeds& feeds, int threads = 1,
                                   std::uint64_t seed = 1) {
  reference::ReferenceBackend oracle;
  CompileOptions options;
  options.mode = "graph";
  options.threads = threads;
  return oracle_answers(oracle, program, options,
                        {.emulated = precision_of(PrecisionKind::fp32), .seed = seed}, feeds);
}

std::vector<double> answer(const std::vector<HostTensor>& answers, const std::string& name) {
  const auto found = std::ranges::find(answers, name, &HostTensor::name);
  if (found == answers.end()) throw std::out_of_range(name);
  return to_doubles(*found);
}

// The error of a tensor that elements on the other side of a tie cause, as relative L2.
double flips(const ExamFeeds& feeds, const Program& program, const std::string& name,
             std::uint64_t seed = 1) {
  return answer(answers_of(program, feeds, 1, seed), "flips/" + name).at(1);
}

TEST(OracleAnswers, MeasureWhatATieInALaterStepChanges) {
  const Program program = two_layers();
  ExamFeeds feeds = feeds_with(program, 0.1f);
  // The parameters stay. The first hidden unit is its bias plus the first input.
  for (std::int64_t row = 1; row <= feeds.steps(); ++row)
    feeds.schedule.as<double>()[static_cast<std::size_t>(2 * row)] = 0;
  tensor(feeds, "fc1.weight").as<float>()[0] = 1;
  const std::string gradient = "last/moment/fc1.weight.m";
  EXPECT_LT(flips(feeds, program, gradient), 1e-5);
  feeds.inputs.as<float>()[8 * 6] = -0.1f;  // of the first sample of batch 1, which no bias is moved for
  EXPECT_GT(flips(feeds, program, gradient), 1e-4);
  EXPECT_LT(flips(feeds, program, "first/moment/fc1.weight.m"), 1e-5);
  // Further from the tie than small moves reach, and within the error that the judge allows. Each sample's move is
  // its own.
  for (std::size_t sample = 0; sample < 8; ++sample)
    feeds.inputs.as<float>()[(8 + sample) * 6] = -0.1f * (1 - 35 * 0x1p-24f);
  EXPECT_GT(flips(feeds, program, gradient), 1e-4);
}

// The largest of four neighbours, then a layer that gives each of them another gradient.
Program pooled() {
  return classifier([](GraphBuilder& builder) {
    const ValueId x = builder.input("inputs", {8, 1, 4, 4});
    const ValueId pooled =
        builder.max_pool(builder.convolution("conv1", x, 2, {.kernel = 3, .padding = 1}), {.kernel = 2});
    return builder.linear("fc2", builder.flatten(pooled), 3);
  });
}

TEST(OracleAnswers, MeasureWhatATieOfAMaxPoolChangesWithNearlyEverySeed) {
  const Program program = pooled();
  const TemporaryFolder folder;
  write_exam(folder.path() / "check", program, {.seed = 3, .distinct = 8});
  ExamFeeds feeds = read_exam(folder.path());
  std::iota(feeds.batches.row_of.begin(), feeds.batches.row_of.end(),
            0);  // the oracle's rows are in the order of the samples
  // The first channel is its centre weight times the pixel.
  const std::span<float> weight = tensor(feeds, "conv1.weight").as<float>();
  std::ranges::fill(weight.first(9), 0.0f);
  weight[4] = 0.5f;
  const std::string gradient = "first/moment/conv1.weight.m";
  EXPECT_LT(flips(feeds, program, gradient), 1e-5);
  // Two pixels of one window that are the largest, three roundings apart. The other pixels of the image decide which
  // gradient they get.
  const std::span<float> image = feeds.inputs.as<float>();
  image[0] = 3;
  image[1] = 3 * (1 - 3 * 0x1p-24f);
  int measured = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) measured += flips(feeds, program, gradient, seed) > 1e-4;
  EXPECT_GE(measured, 19);
}

TEST(OracleAnswers, AreTheSameIfRunsAreMadeSideBySide) {
  const Program program = two_layers();
  const ExamFeeds feeds = feeds_with(program, 0.1f);
  const std::vector<HostTensor> one = answers_of(program, feeds), many = answers_of(program, feeds, 3);
  ASSERT_EQ(one.size(), many.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].name, many[i].name);
    EXPECT_EQ(one[i].bytes, many[i].bytes) << one[i].name;
  }
}

TEST(OracleAnswers, EndWithTheErrorOfARunThatOverflows) {
  const Program program = two_layers();
  ExamFeeds feeds = feeds_with(program, 0.1f);
  std::ranges::fill(tensor(feeds, "fc1.weight").as<float>(), 3e38f);
  for (const int threads : {1, 3}) EXPECT_THROW(answers_of(program, feeds, threads), CellError) << threads;
}

Program reading() {
  return classifier([](GraphBuilder& builder) {
    const ValueId words = builder.embedding("embedding", builder.tokens("inputs", {8, 500}), 50, 4);
    return builder.linear("fc1", builder.lstm("lstm1", words, 16, true), 2);
  });
}

TEST(OracleAnswers, AllowAForgetGateThatIsSomeRoundingsOffInEachStep) {
  const Program program = reading();
  const TemporaryFolder folder;
  write_exam(folder.path() / "check", program, {.seed = 3, .distinct = 8});
  const ExamFeeds feeds = read_exam(folder.path());
  ExamFeeds moved = feeds;
  for (float& forget : tensor(moved, "lstm1.bias").as<float>().subspan(16, 16))
    forget += 4 * 0x1p-24f * (1 + std::exp(forget));
  const std::vector<HostTensor> exact = answers_of(program, feeds);
  const std::string name = "first/moment/fc1.weight.m";
  const std::vector<double> gradient = answer(exact, name), seen = answer(exact, "bound/" + name);
  const Bound bound = bound_of({seen.at(0), seen.at(1)}, gradient, precision_of(PrecisionKind::fp32));
  const double error = error_norms(answer(answers_of(program, moved), name), gradient).l2;
  EXPECT_LT(error, bound.l2);
  EXPECT_GT(error, 0);
}

}  // namespace
}  // namespace assay

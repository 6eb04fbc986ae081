#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "harness/worker/exam.hpp"

namespace assay {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Gt;
using ::testing::Key;
using ::testing::Lt;
using ::testing::UnorderedElementsAre;

// A chaotic network: each step maps every parameter x to 4x(1-x), which doubles an error. It computes in `Number`,
// and its state in host memory is rounded to f32.
template <typename Number>
class Chaotic final : public Executable {
 public:
  Chaotic() {
    Philox random(1, "values");
    for (Number& value : values_) value = static_cast<Number>(random.uniform_double());
  }
  void set_state(std::span<const HostTensor> tensors) override {
    const std::span<const float> given = tensors[0].as<float>();
    values_.assign(given.begin(), given.end());
    ++starts;
  }
  std::vector<HostTensor> state() override {
    HostTensor tensor = HostTensor::zeros("x", {DType::f32, {static_cast<std::int64_t>(values_.size())}});
    std::ranges::transform(values_, tensor.as<float>().begin(),
                           [](Number value) { return static_cast<float>(value); });
    return {std::move(tensor)};
  }
  void stage(std::int64_t, const HostBatch&) override {}
  void step(std::int64_t slot, double, std::int64_t step) override {
    slots.push_back(slot);
    numbers.push_back(step);
    for (Number& value : values_) value = 4 * value * (1 - value);
  }
  void synchronize() override {}
  double loss() override { return 0; }
  std::vector<HostTensor> results() override { return {}; }
  void evaluate(const HostBatch&, float*) override {}
  std::map<std::string, std::int64_t> memory() const override { return {}; }

  std::vector<std::int64_t> slots, numbers;
  int starts = 0;

 private:
  std::vector<Number> values_ = std::vector<Number>(64);
};

ExamFeeds feeds(std::int64_t steps) {
  ExamFeeds made;
  made.schedule = HostTensor::zeros("schedule", {DType::f64, {3, 2}});
  made.batches.slots = {0, 1};
  made.continuation = ExamContinuation{.seconds = 0, .fewest = steps, .most = steps};
  return made;
}

std::map<std::string, std::vector<double>> by_name(const std::vector<HostTensor>& answers) {
  std::map<std::string, std::vector<double>> named;
  for (const HostTensor& tensor : answers) named[tensor.name] = to_doubles(tensor);
  return named;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

TEST(Continuation, RunsTheSameStepsFromACopyOfTheState) {
  Chaotic<float> network;
  const auto answers = by_name(continue_run(network, feeds(2), 7));
  EXPECT_THAT(network.numbers, ElementsAre(7, 8, 9, 8, 9));
  EXPECT_THAT(network.slots, ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(network.starts, 1) << "equal runs need no more runs";
  EXPECT_THAT(answers, UnorderedElementsAre(Key("continuation/steps"), Key("continuation/loss"),
                                            Key("continuation/start/x"), Key("continuation/unwaited/x"),
                                            Key("continuation/waited/x")));
  EXPECT_EQ(answers.at("continuation/unwaited/x"), answers.at("continuation/waited/x"));
  EXPECT_GT(distance(answers.at("continuation/start/x"), answers.at("continuation/waited/x")), 0.1);
}

TEST(Continuation, WhereTheCopyIsRoundedMoreRunsShowWhatRoundingsBecome) {
  Chaotic<double> network;
  const auto answers = by_name(continue_run(network, feeds(12), 0));
  EXPECT_EQ(network.starts, 3);
  const auto& waited = answers.at("continuation/waited/x");
  const double apart = distance(answers.at("continuation/unwaited/x"), waited);
  const double spread = std::max(distance(answers.at("continuation/near_1/x"), waited),
                                 distance(answers.at("continuation/near_2/x"), waited));
  EXPECT_GT(apart, 1e-4) << "of values up to 1";
  EXPECT_GT(spread, apart / 6);
  EXPECT_LT(spread, apart * 6);
}

TEST(Continuation, HandsOverTheElementsThatAreRequested) {
  Chaotic<float> network, same;
  ExamFeeds some = feeds(2);
  some.excerpt = ExamExcerpt{.elements = 10, .at = 0.5};
  const auto all = by_name(continue_run(network, feeds(2), 7)), few = by_name(continue_run(same, some, 7));
  for (const char* name : {"continuation/start/x", "continuation/unwaited/x", "continuation/waited/x"})
    EXPECT_THAT(few.at(name), ElementsAreArray(all.at(name).begin() + 27, all.at(name).begin() + 37)) << name;
}

// Keeps what it was given, without a copy.
class Keeping final : public Executable {
 public:
  void set_state(std::span<const HostTensor>) override {}
  std::vector<HostTensor> state() override { return {}; }
  void stage(std::int64_t, const HostBatch& batch) override {
    views.push_back(batch);
    firsts.push_back(*static_cast<const float*>(batch.inputs));
  }
  void step(std::int64_t, double, std::int64_t) override {}
  void synchronize() override {}
  double loss() override { return 0; }
  std::vector<HostTensor> results() override { return {}; }
  void evaluate(const HostBatch&, float*) override {}
  std::map<std::string, std::int64_t> memory() const override { return {}; }

  std::vector<HostBatch> views;
  std::vector<float> firsts;
};

TEST(StagingBuffer, HasOtherNumbersWhenABatchIsStaged) {
  Keeping network;
  StagingBuffer buffer(network);
  FedBatch batch{HostTensor::zeros("inputs", {DType::f32, {2, 3}}),
                 HostTensor::zeros("labels", {DType::i32, {2}})};
  batch.labels.as<std::int32_t>()[1] = 7;
  for (const float value : {1.0F, 2.0F}) {
    std::ranges::fill(batch.inputs.as<float>(), value);
    buffer.stage(0, batch);
  }
  EXPECT_THAT(network.firsts, ElementsAre(1, 2));
  EXPECT_EQ(network.views[0].inputs, network.views[1].inputs) << "one buffer";
  EXPECT_TRUE(std::isnan(static_cast<const float*>(network.views[0].inputs)[5]));
  EXPECT_EQ(network.views[0].labels[0], 7) << "a label that exists";
  EXPECT_EQ(batch.labels.as<std::int32_t>()[0], 0) << "the batch itself is kept";
}

TEST(Continuation, ANudgeMovesSomeValuesByARoundingTowardsZero) {
  std::vector<float> values(1000, -1.0F);
  Philox random(1, "nudge");
  nudge(values, 4, random);
  EXPECT_THAT(values, Each(::testing::AnyOf(-1.0F, std::nextafter(-1.0F, 0.0F))));
  const auto moved = std::ranges::count_if(values, [](float value) { return value != -1.0F; });
  EXPECT_THAT(moved, ::testing::AllOf(Gt(200), Lt(300)));
}

}  // namespace
}  // namespace assay

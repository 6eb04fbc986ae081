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

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Gt;
using ::testing::IsEmpty;
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
    ++starts;
    if (tensors.empty()) return;  // the exam's own state
    const std::span<const float> given = tensors[0].as<float>();
    values_.assign(given.begin(), given.end());
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

  std::vector<std::int64_t> slots, numbers;
  int starts = 0;

 private:
  std::vector<Number> values_ = std::vector<Number>(64);
};

// Two batches of one sample.
ExamFeeds feeds() {
  ExamFeeds made;
  made.inputs = HostTensor::zeros("inputs", {DType::f32, {2, 3}});
  made.labels = HostTensor::zeros("labels", {DType::i32, {2}});
  made.schedule = HostTensor::zeros("schedule", {DType::f64, {3, 2}});
  made.batches = {.batch = 1, .distinct = 1, .row_of = {0}, .slots = {0, 1}};
  return made;
}

ExamFeeds continued(std::int64_t steps) {
  ExamFeeds made = feeds();
  made.continuation = ExamContinuation{.seconds = 0, .fewest = steps, .most = steps};
  return made;
}

std::map<std::string, std::vector<double>> by_name(const std::vector<HostTensor>& answers) {
  std::map<std::string, std::vector<double>> named;
  for (const HostTensor& tensor : answers) named[tensor.name] = to_doubles(tensor);
  return named;
}

// The answers about a run whose last step had that number, and of the exam of a single op or an inference.
std::map<std::string, std::vector<double>> answers_of(Executable& executable, const ExamFeeds& asked,
                                                      std::int64_t last_step, ExamKind kind = ExamKind::op,
                                                      const std::vector<HostTensor>& read = {}) {
  const Program program{.training = {}, .inference = Graph("none")};
  ExamScript script(asked, {.kind = kind, .generated = 2}, ExamPart::whole, {.last_step = last_step});
  sit(script, executable, program, read);
  return by_name(script.take_answers());
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

TEST(Continuation, RunsTheSameStepsFromACopyOfTheState) {
  Chaotic<float> network;
  const auto answers = answers_of(network, continued(2), 6);
  EXPECT_THAT(network.numbers, ElementsAre(7, 8, 9, 8, 9, 1, 2)) << "those of the exam come last";
  EXPECT_THAT(network.slots, ElementsAre(0, 1, 0, 1, 0, 0, 1));
  EXPECT_EQ(network.starts, 1 + 1) << "equal runs need no more runs";
  EXPECT_THAT(answers, UnorderedElementsAre(Key("continuation/steps"), Key("continuation/loss"),
                                            Key("continuation/start/x"), Key("continuation/unwaited/x"),
                                            Key("continuation/waited/x"), Key("running/x")));
  EXPECT_EQ(answers.at("continuation/unwaited/x"), answers.at("continuation/waited/x"));
  EXPECT_GT(distance(answers.at("continuation/start/x"), answers.at("continuation/waited/x")), 0.1);
}

TEST(Continuation, WhereTheCopyIsRoundedMoreRunsShowWhatRoundingsBecome) {
  Chaotic<double> network;
  const auto answers = answers_of(network, continued(12), 0);
  EXPECT_EQ(network.starts, 3 + 1);
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
  ExamFeeds some = continued(2);
  some.excerpt = ExamExcerpt{.elements = 10, .at = 0.5};
  const auto all = answers_of(network, continued(2), 6), few = answers_of(same, some, 6);
  for (const char* name : {"continuation/start/x", "continuation/unwaited/x", "continuation/waited/x"})
    EXPECT_THAT(few.at(name), ElementsAreArray(all.at(name).begin() + 27, all.at(name).begin() + 37)) << name;
}

// Keeps what it was given, without a copy. Slot s has the logits s, and those of its token t are s + t / 10.
class Keeping final : public Executable {
 public:
  explicit Keeping(std::string result = "logits") : result_(std::move(result)) {}
  void set_state(std::span<const HostTensor>) override {}
  void stage(std::int64_t slot, const HostBatch& batch) override {
    views.push_back(batch);
    firsts.push_back(*static_cast<const float*>(batch.inputs));
    staged.push_back(slot);
  }
  void step(std::int64_t slot, double, std::int64_t) override { value_ = static_cast<float>(slot); }
  void prefill(std::int64_t slot) override { value_ = static_cast<float>(slot); }
  void next_token(std::int64_t) override { value_ += 0.1F; }
  void synchronize() override {}
  std::vector<HostTensor> results() override {
    HostTensor tensor = HostTensor::zeros(result_, {DType::f32, {1, 1, 1}});
    tensor.as<float>()[0] = value_;
    return {std::move(tensor)};
  }

  std::vector<HostBatch> views;
  std::vector<float> firsts;
  std::vector<std::int64_t> staged;

 private:
  std::string result_;
  float value_ = 3;  // of the last step of the run
};

TEST(ExamScript, HasOtherNumbersInABatchThatWasStaged) {
  Keeping network;
  ExamFeeds asked = feeds();
  std::ranges::fill(asked.inputs.as<float>().first(3), 1.0F);
  std::ranges::fill(asked.inputs.as<float>().subspan(3), 2.0F);
  asked.labels.as<std::int32_t>()[1] = 7;
  const std::vector<float> given(asked.inputs.as<float>().begin(), asked.inputs.as<float>().end());
  ExamScript script(asked, {.kind = ExamKind::inference});
  sit(script, network, {.training = {}, .inference = Graph("none")});
  EXPECT_THAT(network.firsts, ElementsAre(1, 2));
  EXPECT_THAT(network.staged, ElementsAre(0, 1)) << "each once";
  EXPECT_EQ(network.views[0].inputs, network.views[1].inputs) << "one buffer";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(network.views[0].inputs) % 4096, 0U)
      << "what begins at a page is what frameworks keep";
  EXPECT_TRUE(std::isnan(static_cast<const float*>(network.views[1].inputs)[2]));
  EXPECT_EQ(network.views[1].labels[0], 7) << "a label that exists";
  EXPECT_THAT(asked.inputs.as<float>(), ElementsAreArray(given)) << "the samples themselves are kept";
}

ExamFeeds asked_of_run(std::vector<std::int64_t> slots) {
  ExamFeeds made = feeds();
  made.run = ExamRun{std::move(slots)};
  return made;
}

TEST(ExamScript, ReadsTheResultsOfTheLastStepBeforeAnyOtherStep) {
  Keeping network;
  const auto answers = answers_of(network, asked_of_run({5, 1}), 9, ExamKind::inference);
  EXPECT_THAT(answers.at("run/last/logits"), ElementsAre(3));
  EXPECT_THAT(answers.at("run/logits"), ElementsAre(5, 1));
  EXPECT_THAT(answers.at("logits"), ElementsAre(0, 1)) << "of its own batches";
}

TEST(ExamScript, AsksOnlyAboutTheLastStepIfNoBatchIsResident) {
  Keeping network;
  const auto answers = answers_of(network, asked_of_run({}), 9, ExamKind::inference);
  EXPECT_THAT(answers, UnorderedElementsAre(Key("run/last/logits"), Key("logits")));
}

TEST(ExamScript, HandsOverWhatWasReadOfTheRun) {
  Keeping op("out");
  std::vector<HostTensor> read = {HostTensor::zeros("out", {DType::f32, {1}})};
  read[0].as<float>()[0] = 7;
  EXPECT_THAT(answers_of(op, asked_of_run({}), 9, ExamKind::op, read).at("run/read/result/out"),
              ElementsAre(7));
}

TEST(ExamScript, NamesTheGradientsOfAnOpApartFromItsResults) {
  Keeping result("out"), gradient("gradient/in");
  EXPECT_TRUE(answers_of(result, asked_of_run({2}), 9).contains("run/result/out"));
  EXPECT_TRUE(answers_of(gradient, asked_of_run({2}), 9).contains("run/gradient/in"));
}

TEST(ExamScript, HasEveryTokenOfAGeneration) {
  Keeping network;
  const auto answers = answers_of(network, asked_of_run({4}), 9, ExamKind::decoding);
  EXPECT_THAT(answers.at("run/logits"),
              ElementsAre(DoubleNear(4, 1e-6), DoubleNear(4.1, 1e-6), DoubleNear(4.2, 1e-6)));
  EXPECT_THAT(answers.at("logits"), ::testing::SizeIs(2 * 3));
}

TEST(ExamFeeds, FeedARowAgainWithRoundingsAndKeepWholeNumbers) {
  ExamFeeds made = feeds();
  made.batches = {.batch = 6, .distinct = 2, .row_of = {0, 1, 1, 0, 0, 1}, .slots = {0}};
  made.inputs = HostTensor::zeros("inputs", {DType::f32, {2, 80}});
  for (std::size_t i = 0; i < 160; ++i) made.inputs.as<float>()[i] = i % 80 < 40 ? 0.3F : 5.0F;
  const FedBatch batch = made.batch(0);
  const std::span<const float> rows = batch.inputs.as<float>();
  EXPECT_THAT(rows.first(160), ElementsAreArray(made.inputs.as<float>())) << "first rows";
  for (std::size_t row = 2; row < 6; ++row) {
    const std::span<const float> again = rows.subspan(row * 80, 80);
    EXPECT_THAT(again.first(40), Each(AnyOf(0.3F, std::nextafter(0.3F, 0.0F)))) << row;
    EXPECT_THAT(again.first(40), Contains(std::nextafter(0.3F, 0.0F))) << row;
    EXPECT_THAT(again.subspan(40), Each(5.0F)) << row;
  }
}

// Draws and takes masks: what it computes is the sum of the masks that it uses.
class Dropping final : public Executable {
 public:
  void set_state(std::span<const HostTensor>) override {}
  void stage(std::int64_t, const HostBatch&) override {}
  void step(std::int64_t, double, std::int64_t) override {
    if (supplied_.empty()) drawn_ = {1, 0, 255};
  }
  void synchronize() override {}
  std::vector<HostTensor> results() override { return {}; }
  void supply_masks(std::span<const HostTensor> masks) override {
    supplied_.clear();
    for (const HostTensor& mask : masks)
      for (const std::byte kept : mask.bytes) supplied_.push_back(std::to_integer<int>(kept));
    all.push_back(supplied_);
  }
  std::vector<HostTensor> masks() override {
    HostTensor mask = HostTensor::zeros("m", {DType::u8, {3}});
    std::ranges::transform(drawn_, mask.bytes.begin(), [](int kept) { return static_cast<std::byte>(kept); });
    return {std::move(mask)};
  }

  std::vector<std::vector<int>> all;

 private:
  std::vector<int> supplied_, drawn_;
};

TEST(ExamScript, SuppliesWhatWasDrawnAndKeepsWhatIsUnknown) {
  Dropping op;
  ExamFeeds asked = feeds();
  asked.masks = {HostTensor::zeros("m", {DType::u8, {1, 3}})};
  const auto answers = [&] {
    ExamScript script(asked, {.kind = ExamKind::op});
    sit(script, op, {.training = {}, .inference = Graph("none")});
    return script.take_answers();
  }();
  const auto draws = std::ranges::find(answers, "draws/m", &HostTensor::name);
  ASSERT_NE(draws, answers.end());
  EXPECT_EQ(draws->type.shape, (Shape{2, 3}));
  EXPECT_THAT(op.all, ElementsAre(ElementsAre(0, 0, 0), ElementsAre(1, 0, 1), IsEmpty()))
      << "those of the exam, those that were drawn, and none";
}

TEST(Continuation, ANudgeMovesSomeValuesByARoundingTowardsZero) {
  std::vector<float> values(1000, -1.0F);
  Philox random(1, "nudge");
  nudge(values, 4, random);
  EXPECT_THAT(values, Each(AnyOf(-1.0F, std::nextafter(-1.0F, 0.0F))));
  const auto moved = std::ranges::count_if(values, [](float value) { return value != -1.0F; });
  EXPECT_THAT(moved, ::testing::AllOf(Gt(200), Lt(300)));
}

}  // namespace
}  // namespace assay

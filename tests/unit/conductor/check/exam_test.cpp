#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "harness/conductor/check/oracle.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/json/strict_json.hpp"
#include "tests/unit/conductor/check/answered_exam.hpp"

namespace assay {
namespace {

TEST(DistinctSamples, is_the_largest_divisor_of_the_batch) {
  EXPECT_EQ(distinct_samples(200, 8), 8);
  EXPECT_EQ(distinct_samples(32, 8), 8);
  EXPECT_EQ(distinct_samples(10, 8), 5);
  EXPECT_EQ(distinct_samples(7, 8), 7);
  EXPECT_EQ(distinct_samples(1, 8), 1);
}

TEST(DistinctSamples, has_more_samples_without_a_fitting_divisor) {
  EXPECT_EQ(distinct_samples(13, 8), 13);
  EXPECT_EQ(distinct_samples(26, 8), 13);
  EXPECT_EQ(distinct_samples(9, 8), 9);
  EXPECT_THROW(distinct_samples(0, 8), std::invalid_argument);
}

class WrittenExam : public ::testing::Test {
 protected:
  WrittenExam() : program_(tiny_program(32)) {
    write_exam(folder_.path(), program_, plan_);
    batches_ = read_exam_batches(folder_.path() / "batches.json");
  }
  HostTensor array(const char* name) const { return read_npy(folder_.path() / name); }

  TemporaryFolder folder_;
  ExamPlan plan_{.seed = 5, .distinct = 4, .resident = 3};
  Program program_;
  ExamBatches batches_;
};

TEST_F(WrittenExam, HasNoParameterThatIsZeroOrOneAndNoMomentThatIsZero) {
  std::size_t count = 0;
  for (const HostTensor& tensor : read_safetensors(folder_.path() / "state.safetensors")) {
    const bool moment = tensor.name.ends_with(".m") || tensor.name.ends_with(".v");
    for (const float value : tensor.as<float>()) {
      EXPECT_GT(std::abs(value), moment ? 0 : 0.01) << tensor.name;
      EXPECT_GT(std::abs(std::abs(value) - 1), 0.01) << tensor.name;
      EXPECT_LT(std::abs(value), value == -16 ? 17 : 3) << tensor.name;
      const bool positive = tensor.name.ends_with(".v") || tensor.name == "bn1.running_var";
      EXPECT_TRUE(!positive || value > 0) << tensor.name;
    }
    ++count;
  }
  EXPECT_EQ(count, 3 * program_.training->with_role(Role::parameter).size() +
                       program_.training->with_role(Role::state).size());
}

TEST_F(WrittenExam, has_means_of_squares_over_decades) {
  const TensorFile state = TensorFile::read(folder_.path() / "state.safetensors");
  const std::vector<double> m = state.required("fc1.weight.m"), v = state.required("fc1.weight.v");
  const auto [smallest, largest] = std::minmax_element(v.begin(), v.end());
  EXPECT_GT(*largest / *smallest, 1e4);
  for (std::size_t i = 0; i < v.size(); ++i) EXPECT_LT(std::abs(m[i]), std::sqrt(v[i]));
}

TEST_F(WrittenExam, ShowsAnEpsilonInAClassThatTheFirstBatchLacks) {
  const TemporaryFolder folder;
  write_exam(folder.path(), program_, {.seed = 5, .distinct = 2, .resident = 3});
  const TensorFile state = TensorFile::read(folder.path() / "state.safetensors");
  const std::vector<double> bias = state.required("fc1.bias");
  const auto unlikely = std::ranges::find(bias, -16.0);
  ASSERT_NE(unlikely, bias.end());
  const auto label = static_cast<std::size_t>(unlikely - bias.begin());
  const HostTensor labels = read_npy(folder.path() / "labels.npy");
  const auto first = labels.as<std::int32_t>().first(2);
  EXPECT_EQ(std::ranges::find(first, static_cast<std::int32_t>(label)), first.end());
  const std::vector<double> v = state.required("fc1.weight.v");
  const std::size_t inputs = v.size() / bias.size();
  for (std::size_t i = 0; i < inputs; ++i) EXPECT_LE(v[label * inputs + i], 1.1e-12);
}

TEST_F(WrittenExam, RepeatsEachSampleEquallyOftenInNoPlainOrder) {
  EXPECT_EQ(batches_.distinct, 4);
  std::vector<int> times(4);
  for (const std::int64_t row : batches_.row_of) ++times.at(static_cast<std::size_t>(row));
  EXPECT_TRUE(std::ranges::all_of(times, [](int n) { return n == 8; }));
  EXPECT_FALSE(std::ranges::is_sorted(batches_.row_of));
}

// A step that leaves out half of the rows would have the mean of all if the other half had every sample equally often.
TEST_F(WrittenExam, no_half_of_the_rows_is_like_the_whole) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const TemporaryFolder folder;
    write_exam(folder.path(), program_, {.seed = seed, .distinct = 4, .resident = 3});
    const std::vector<std::int64_t> rows = read_exam_batches(folder.path() / "batches.json").row_of;
    std::vector<int> first(4), even(4);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (r < rows.size() / 2) ++first.at(static_cast<std::size_t>(rows[r]));
      if (r % 2 == 0) ++even.at(static_cast<std::size_t>(rows[r]));
    }
    EXPECT_NE(first, std::vector<int>(4, 4)) << seed;
    EXPECT_NE(even, std::vector<int>(4, 4)) << seed;
  }
}

TEST_F(WrittenExam, HasABatchOfItsOwnForEverySlot) {
  EXPECT_THAT(batches_.slots, ::testing::UnorderedElementsAre(0, 1, 2));
  const HostTensor inputs = array("inputs.npy"), labels = array("labels.npy");
  ASSERT_EQ(inputs.type, (TensorType{DType::f32, {12, 1, 4, 4}}));
  ASSERT_EQ(labels.type, (TensorType{DType::i32, {12}}));
  std::set<std::vector<float>> samples;
  for (std::size_t r = 0; r < 12; ++r) {
    const std::span<const float> row = inputs.as<float>().subspan(16 * r, 16);
    samples.emplace(row.begin(), row.end());
  }
  EXPECT_EQ(samples.size(), 12u);
  const std::set<std::int32_t> classes(labels.as<std::int32_t>().begin(), labels.as<std::int32_t>().end());
  EXPECT_EQ(classes, (std::set<std::int32_t>{0, 1, 2}));
}

// Texts of 9 tokens with the padding token 3; a label for each text.
Program padded_program() {
  Program program{Graph("padded"), Graph("padded"), OptimizerSpec{}};
  for (const bool training : {true, false}) {
    Graph& graph = training ? program.training.value() : program.inference;
    GraphBuilder b(graph, training);
    const ValueId tokens = b.tokens("inputs", {8, 9});
    const ValueId x = b.embedding("table", tokens, 11, 4);
    const ValueId logits = b.linear("fc", b.mean_pool(x, b.padding_mask(tokens, 3)), 2);
    graph.add_output("logits", logits);
    if (training) graph.add_output("loss", b.softmax_cross_entropy(logits, b.label("labels", {8}), "loss"));
  }
  return program;
}

TEST(PaddedExam, HasTextsOfAllLengthsWithThePaddingAtTheEnd) {
  const TemporaryFolder folder;
  write_exam(folder.path(), padded_program(), {.seed = 5, .distinct = 4, .resident = 3});
  const HostTensor inputs = read_npy(folder.path() / "inputs.npy");
  ASSERT_EQ(inputs.type, (TensorType{DType::i32, {12, 9}}));
  std::set<std::ptrdiff_t> lengths;
  for (std::size_t sample = 0; sample < 12; ++sample) {
    const std::span<const std::int32_t> row = inputs.as<std::int32_t>().subspan(9 * sample, 9);
    const auto end = std::ranges::find(row, 3);
    EXPECT_TRUE(std::all_of(end, row.end(), [](std::int32_t token) { return token == 3; })) << sample;
    for (const std::int32_t token : row) EXPECT_TRUE(token >= 0 && token < 11) << sample;
    lengths.insert(end - row.begin());
    if (sample == 0) {
      EXPECT_EQ(end - row.begin(), 9) << "the first is full";
    }
    if (sample == 1) {
      EXPECT_EQ(end - row.begin(), 1) << "the second has one token";
    }
  }
  EXPECT_GE(lengths.size(), 4U);
  EXPECT_GE(*lengths.begin(), 1) << "no sample is only padding";
}

// A label for each of 6 positions, and a tied head without a bias.
Program next_token_program() {
  Program program{Graph("next"), Graph("next"), OptimizerSpec{}};
  for (const bool training : {true, false}) {
    Graph& graph = training ? program.training.value() : program.inference;
    GraphBuilder b(graph, training);
    const ValueId x = b.embedding("table", b.tokens("inputs", {8, 6}), 11, 4);
    const ValueId logits = b.apply("linear", {x, graph.find("table.weight"), none}, {}, "head").front();
    graph.add_output("logits", logits);
    if (training)
      graph.add_output("loss", b.softmax_cross_entropy(logits, b.label("labels", {8, 6}), "loss"));
  }
  return program;
}

TEST(NextTokenExam, HasALabelForEachPosition) {
  const TemporaryFolder folder;
  const Program program = next_token_program();
  EXPECT_NO_THROW(check_program(program));
  write_exam(folder.path(), program, {.seed = 5, .distinct = 4, .resident = 3});
  const HostTensor labels = read_npy(folder.path() / "labels.npy");
  ASSERT_EQ(labels.type, (TensorType{DType::i32, {12, 6}}));
  const std::set<std::int32_t> classes(labels.as<std::int32_t>().begin(), labels.as<std::int32_t>().end());
  EXPECT_EQ(classes.size(), 11U);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "extreme.safetensors")) << "the head has no bias";
}

TEST_F(WrittenExam, StagesEveryBatchInTheOneSlotOfACellThatLoads) {
  plan_.resident = 0;
  TemporaryFolder loads;
  write_exam(loads.path(), program_, plan_);
  EXPECT_EQ(read_exam_batches(loads.path() / "batches.json").slots, (std::vector<std::int64_t>{0, 0, 0}));
}

TEST_F(WrittenExam, CountsStepsOfAYoungAndOfALongTraining) {
  double longest = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    plan_.seed = plan_.turn = seed;
    const TemporaryFolder folder;
    write_exam(folder.path(), program_, plan_);
    const std::vector<double> schedule = TensorFile::read_array(folder.path() / "schedule.npy");
    ASSERT_EQ(schedule.size(), 8u);
    const double few = seed % 2 == 0 ? schedule[3] : schedule[1];
    const double many = seed % 2 == 0 ? schedule[1] : schedule[3];
    EXPECT_GE(few, 20);
    EXPECT_LT(few, 500) << "where Adam corrects its bias";
    EXPECT_GT(many, 65'536) << "where a count that stops on the way has stopped";
    EXPECT_LE(many, 1e6);
    EXPECT_GE(std::fmod(many, 65'536), 1);
    EXPECT_LE(std::fmod(many, 65'536), 200) << "a count that wraps is small";
    longest = std::max(longest, many);
    EXPECT_EQ(schedule[5], schedule[3] + 1);
    EXPECT_EQ(schedule[7], schedule[3] + 2);
  }
  EXPECT_GT(longest, 5e5);
}

TEST_F(WrittenExam, HasRatesOfAllSizes) {
  plan_.resident = 8;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    plan_.seed = seed;
    const TemporaryFolder folder;
    write_exam(folder.path(), program_, plan_);
    const std::vector<double> schedule = TensorFile::read_array(folder.path() / "schedule.npy");
    std::vector<double> rates;
    for (std::size_t row = 1; row < schedule.size() / 2; ++row) rates.push_back(schedule[2 * row]);
    EXPECT_EQ(std::ranges::count_if(rates, [](double rate) { return rate < 1e-6; }), 1);
    EXPECT_GE(std::ranges::min(rates), 1e-7);
    EXPECT_GE(rates[0], 2e-5) << "the continuation uses it";
    EXPECT_LE(std::ranges::max(rates), 3e-4);
    EXPECT_LT(rates[1] / rates[0], 1.31) << "one rate is near the one before";
    EXPECT_GT(rates[1] / rates[0], 1.09);
    EXPECT_GE(schedule[0], 0.01) << "a small decay shows";
  }
}

TEST_F(WrittenExam, HasLabelsOfTheFirstTheLastAndManyClasses) {
  const auto classifier = [](std::int64_t classes) {
    Graph graph("classifier");
    GraphBuilder b(graph);
    const ValueId logits = b.linear("fc1", b.input("inputs", {8, 5}), classes);
    graph.add_output("logits", logits);
    graph.add_output("loss", b.softmax_cross_entropy(logits, b.label("labels", {8}), "loss"));
    return Program{graph, graph, OptimizerSpec{}};
  };
  for (const std::int64_t classes : {2, 3, 10, 100}) {
    SCOPED_TRACE(classes);
    std::set<std::int32_t> met;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const TemporaryFolder folder;
      write_exam(folder.path(), classifier(classes), {.seed = seed, .distinct = 4, .resident = 8});
      const HostTensor labels = read_npy(folder.path() / "labels.npy");
      const auto all = labels.as<std::int32_t>();
      ASSERT_EQ(all.size(), 32U);
      const std::set<std::int32_t> first(all.begin(), all.begin() + 4), seen(all.begin(), all.end());
      EXPECT_TRUE(first.contains(0) && first.contains(static_cast<std::int32_t>(classes - 1)));
      EXPECT_TRUE(classes == 2 || std::ssize(first) < classes) << "no class is left for an epsilon";
      EXPECT_EQ(std::ssize(seen), std::min<std::int64_t>(32, classes));
      for (std::size_t batch = 0; batch < 8; ++batch) {
        const std::set<std::int32_t> of_batch(all.begin() + static_cast<std::ptrdiff_t>(4 * batch),
                                              all.begin() + static_cast<std::ptrdiff_t>(4 * batch + 4));
        EXPECT_GT(of_batch.size(), 1U) << batch;
      }
      met.merge(std::set<std::int32_t>(seen));
    }
    EXPECT_EQ(std::ssize(met), classes) << "a class that no exam has";
  }
}

TEST(ExamSlots, TakeTurns) {
  for (const std::int64_t resident : {1, 3, 8, 9, 16, 24, 64}) {
    SCOPED_TRACE(resident);
    std::set<std::int64_t> asked;
    const std::int64_t turns = (resident + 7) / 8;
    for (std::int64_t turn = 5; turn < 5 + turns; ++turn) {
      const auto slots = exam_slots(resident, static_cast<std::uint64_t>(turn), 7);
      const std::set<std::int64_t> distinct(slots.begin(), slots.end());
      EXPECT_EQ(std::ssize(slots), std::min<std::int64_t>(8, resident));
      EXPECT_EQ(distinct.size(), slots.size());
      asked.insert(slots.begin(), slots.end());
      if (resident % 2 != 0 || resident < 8) continue;
      for (const std::int64_t slot : slots)
        EXPECT_TRUE(distinct.contains((slot + resident / 2) % resident)) << "half of the slots away";
    }
    EXPECT_EQ(std::ssize(asked), resident);
    EXPECT_EQ(*asked.rbegin(), resident - 1);
  }
  EXPECT_EQ(exam_slots(0, 3, 7), (std::vector<std::int64_t>{0, 0, 0}));
}

TEST(ExamOfInference, HasNoMasks) {
  Graph training("dropping"), inference("dropping");
  for (Graph* graph : {&training, &inference}) {
    GraphBuilder b(*graph, graph == &training);
    const ValueId x = b.dropout(b.input("inputs", {8, 5}), 0.5, "drop1");
    const ValueId logits = b.linear("fc1", x, 3);
    graph->add_output("logits", logits);
    if (graph == &training)
      graph->add_output("loss", b.softmax_cross_entropy(logits, b.label("labels", {8}), "loss"));
  }
  const Program program{training, inference, OptimizerSpec{}};
  for (const Task task : {Task::train, Task::infer}) {
    const TemporaryFolder folder;
    write_exam(folder.path(), program, {.seed = 1, .resident = 2, .task = task});
    EXPECT_EQ(std::filesystem::exists(folder.path() / "masks.safetensors"), task == Task::train);
  }
}

TEST_F(WrittenExam, LetsTheGradientOfPlainSgdShowInTheParameter) {
  program_.optimizer->kind = "sgd";
  program_.optimizer->momentum = 0;
  TemporaryFolder plain;
  write_exam(plain.path(), program_, plan_);
  EXPECT_EQ(TensorFile::read_array(plain.path() / "schedule.npy").front(), 1);
}

TEST_F(WrittenExam, HasALogitThatLeavesWhatFp32HoldsAsAnExponential) {
  const TensorFile extreme = TensorFile::read(folder_.path() / "extreme.safetensors");
  EXPECT_EQ(std::ranges::count_if(extreme.required("fc1.bias"), [](double logit) { return logit > 100; }), 1);
}

TEST_F(WrittenExam, has_an_extreme_logit_of_another_class_than_the_first_sample) {
  // Else a batch of one distinct sample has a loss of zero, and an answer is nothing but rounding.
  const HostTensor labels = read_npy(folder_.path() / "labels.npy");
  const auto label = static_cast<std::size_t>(labels.as<std::int32_t>()[0]);
  const std::vector<double> logits =
      TensorFile::read(folder_.path() / "extreme.safetensors").required("fc1.bias");
  EXPECT_LT(std::abs(logits.at(label)), 1);
}

TEST_F(WrittenExam, AsksForAContinuationOnlyOfWhatTrains) {
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "continuation.json"));
  const TemporaryFolder inference;
  write_exam(inference.path(), tiny_program(32), {7, 4, 2, Task::infer, PrecisionKind::fp32});
  EXPECT_FALSE(std::filesystem::exists(inference.path() / "continuation.json"));
}

TEST(ExamContinuation, TakesAsManyStepsAsFitWithinItsLimits) {
  const ExamContinuation continuation;
  EXPECT_EQ(continuation.steps(0.01), 25);
  EXPECT_EQ(continuation.steps(1.6), 2);
  EXPECT_EQ(continuation.steps(0), 200);
}

TEST_F(WrittenExam, IsTheSameAgainAndAnotherWithAnotherSeed) {
  TemporaryFolder again, other;
  write_exam(again.path(), program_, plan_);
  plan_.seed = 6;
  write_exam(other.path(), program_, plan_);
  EXPECT_EQ(read_npy(again.path() / "inputs.npy").bytes, array("inputs.npy").bytes);
  EXPECT_NE(read_npy(other.path() / "inputs.npy").bytes, array("inputs.npy").bytes);
}

TEST_F(WrittenExam, RefusesBatchesThatDoNotFit) {
  const std::filesystem::path file = folder_.path() / "batches.json";
  std::ofstream(file) << R"({"batch": 3, "distinct": 1, "row_of": [0, 0, 7], "slots": [0]})";
  EXPECT_THROW(read_exam_batches(file), JsonError);
  std::ofstream(file) << "[";
  EXPECT_THROW(read_exam_batches(file), JsonError);
}

Program reading(std::int64_t vocabulary) {
  Graph graph("reading");
  GraphBuilder b(graph);
  const ValueId tokens = b.tokens("inputs", {8, 6});
  const ValueId labels = b.label("labels", {8});
  const ValueId read = b.lstm("lstm1", b.embedding("embedding", tokens, vocabulary, 4), 6, true);
  const ValueId logits = b.linear("fc1", read, 2);
  graph.add_output("logits", logits);
  graph.add_output("loss", b.softmax_cross_entropy(logits, labels, "loss"));
  return {graph, graph, OptimizerSpec{}};
}

TEST(ExamOfTexts, NamesTheFirstAndTheLastRowOfTheTableInEverySample) {
  TemporaryFolder folder;
  write_exam(folder.path(), reading(500), {.seed = 2, .resident = 2});
  const HostTensor tokens = read_npy(folder.path() / "inputs.npy");
  ASSERT_EQ(tokens.type.shape, (Shape{8, 6}));
  for (std::size_t sample = 0; sample < 8; ++sample) {
    const auto row = tokens.as<std::int32_t>().subspan(6 * sample, 6);
    EXPECT_EQ(std::ranges::count(row, 0), 1);
    EXPECT_GE(std::ranges::count(row, 499), 1);
  }
}

TEST(ExamOfTexts, OpensTheForgetGatesOfHalfTheUnits) {
  TemporaryFolder folder;
  write_exam(folder.path(), reading(500), {.seed = 2});
  const std::vector<double> bias =
      TensorFile::read(folder.path() / "state.safetensors").required("lstm1.bias");
  ASSERT_EQ(bias.size(), 24u);
  EXPECT_EQ(std::ranges::count_if(bias, [](double b) { return b >= 3; }), 3);
  for (const std::size_t unit : {6, 8, 10}) EXPECT_GE(bias[unit], 3);
}

TEST(Rebatch, changes_the_rows_and_nothing_else) {
  const Program program = tiny_program(32);
  const Program small = with_batch(program, 8);
  EXPECT_EQ(batch_of(small), 8);
  const Graph& graph = small.training.value();
  EXPECT_EQ(graph.value(graph.output("logits")).type.shape, (Shape{8, 3}));
  EXPECT_EQ(graph.value(graph.output("loss")).type.shape, Shape{});
  EXPECT_EQ(graph.nodes().size(), program.training->nodes().size());
  EXPECT_EQ(graph.updates().size(), program.training->updates().size());
  for (const ValueId id : program.training->with_role(Role::parameter)) {
    const Value& value = program.training->value(id);
    ASSERT_NE(graph.find(value.name), none);
    EXPECT_EQ(graph.value(graph.find(value.name)).type, value.type);
  }
}

}  // namespace
}  // namespace assay

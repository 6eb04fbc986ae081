#include "harness/conductor/check/rank_exam.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/npy.hpp"
#include "tests/unit/conductor/check/answered_exam.hpp"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RankExam : public ::testing::Test {
 protected:
  RankExam() {
    write_exam(folder_ / "exam", tiny_program(16), {.seed = 5, .distinct = 2, .resident = 3, .ranks = 2});
    whole_ = read_exam_batches(folder_ / "exam/batches.json");
    for (int rank = 0; rank < 2; ++rank) write_exam_of_rank(folder_ / "exam", of(rank), rank, 2);
  }
  std::filesystem::path of(int rank) const { return folder_ / std::to_string(rank); }

  TemporaryFolder folder_;
  ExamBatches whole_;
};

TEST_F(RankExam, GivesEachRankSamplesThatNoOtherOneHas) {
  EXPECT_EQ(whole_.distinct, 4) << "two for each rank";
  std::map<std::int64_t, int> seen;
  for (std::size_t row = 0; row < 16; ++row) {
    EXPECT_EQ(whole_.row_of[row] / 2, row < 8 ? 0 : 1);
    ++seen[whole_.row_of[row]];
  }
  for (const auto& [sample, count] : seen) EXPECT_EQ(count, 4) << sample;
}

TEST_F(RankExam, HasOnlyTheRowsAndTheSamplesOfTheRank) {
  const HostTensor all = read_npy(folder_ / "exam/inputs.npy");
  for (int rank = 0; rank < 2; ++rank) {
    const ExamBatches own = read_exam_batches(of(rank) / "batches.json");
    EXPECT_EQ(own.batch, 8);
    EXPECT_EQ(own.distinct, 2);
    EXPECT_EQ(own.slots, whole_.slots);
    const HostTensor inputs = read_npy(of(rank) / "inputs.npy");
    ASSERT_EQ(inputs.type.shape.front(), 2 * own.count());
    const std::size_t size = inputs.as<float>().size() / static_cast<std::size_t>(2 * own.count());
    for (std::int64_t batch = 0; batch < own.count(); ++batch)
      for (std::int64_t row = 0; row < 8; ++row) {
        const auto mine = static_cast<std::size_t>(batch * 2 + own.row_of[static_cast<std::size_t>(row)]);
        const auto theirs =
            static_cast<std::size_t>(batch * 4 + whole_.row_of[static_cast<std::size_t>(rank * 8 + row)]);
        for (std::size_t i = 0; i < size; ++i)
          ASSERT_EQ(inputs.as<float>()[mine * size + i], all.as<float>()[theirs * size + i]);
      }
  }
}

TEST_F(RankExam, HasTheSameStateAndScheduleForAllRanks) {
  for (const char* name : {"state.safetensors", "schedule.npy", "continuation.json"})
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_EQ(read_text(of(rank) / name), read_text(folder_ / "exam" / name)) << name;
}

TEST_F(RankExam, IsNotCutOutOfAnExamForOneRank) {
  write_exam(folder_ / "other", tiny_program(16), {.seed = 5, .distinct = 4, .resident = 3});
  EXPECT_THROW(part_of(read_exam_batches(folder_ / "other/batches.json"), 0, 2), CellError);
}

// A dropout between two layers.
Program dropping_program(std::int64_t batch) {
  const auto build = [&](bool training) {
    Graph graph(training ? "dropping" : "dropping_inference");
    GraphBuilder builder(graph, training);
    const ValueId labels = builder.label("labels", {batch});
    const ValueId hidden =
        builder.dropout(builder.linear("fc1", builder.input("inputs", {batch, 5}), 7), 0.5, "drop");
    const ValueId logits = builder.linear("fc2", hidden, 3);
    graph.add_output("logits", logits);
    if (training) graph.add_output("loss", builder.softmax_cross_entropy(logits, labels, "loss"));
    return graph;
  };
  return {build(true), build(false), OptimizerSpec{}};
}

TEST(RankMasks, AreThoseOfTheSamplesOfTheRank) {
  const TemporaryFolder folder;
  write_exam(folder / "exam", dropping_program(16), {.seed = 5, .distinct = 2, .resident = 3, .ranks = 2});
  const HostTensor all = read_safetensors(folder / "exam/masks.safetensors").at(0);
  ASSERT_EQ(all.type.shape, Shape({4, 7}));
  std::vector<std::byte> joined;
  for (int rank = 0; rank < 2; ++rank) {
    write_exam_of_rank(folder / "exam", folder / std::to_string(rank), rank, 2);
    const auto own = read_safetensors(folder / std::to_string(rank) / "masks.safetensors");
    ASSERT_EQ(own.size(), 1u);
    EXPECT_EQ(own[0].name, all.name);
    EXPECT_EQ(own[0].type, (TensorType{DType::u8, {2, 7}}));
    joined.insert(joined.end(), own[0].bytes.begin(), own[0].bytes.end());
  }
  EXPECT_EQ(joined, all.bytes);
}

TEST(RankMasks, AreJoinedInEachDraw) {
  const ExpectedTensor expected{.name = "draws/drop.mask", .shape = {2, 4, 1}, .draws = true};
  EXPECT_EQ(type_of_rank(expected, 2), (TensorType{DType::u8, {2, 2, 1}}));
  std::vector<TensorFile> files(2);
  for (std::uint8_t rank = 0; rank < 2; ++rank) {
    HostTensor drawn = HostTensor::zeros(expected.name, {DType::u8, {2, 2, 1}});
    for (std::uint8_t i = 0; i < 4; ++i)
      drawn.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(10 * rank + i);
    files[rank].put(drawn);
  }
  join_answers(files, {expected});
  for (const TensorFile& file : files) {
    const HostTensor& joined = *file.find(expected.name);
    EXPECT_EQ(joined.type.shape, expected.shape);
    EXPECT_THAT(joined.as<std::uint8_t>(), ElementsAre(0, 1, 10, 11, 2, 3, 12, 13));
  }
}

// The answers of an exam, as two ranks with half of each batch would have written them.
class RankAnswersTest : public ::testing::Test {
 protected:
  RankAnswersTest() {
    exam_.write();
    for (int rank = 0; rank < 2; ++rank)
      for (const HostTensor& tensor : read_safetensors(exam_.worker_file()))
        ranks_[rank][tensor.name] = tensor;
    for (const ExpectedTensor& expected : exam_.expected()) {
      for (int rank = 0; rank < 2; ++rank) {
        HostTensor& tensor = ranks_[rank].at(expected.name);
        if (expected.mean) tensor.as<float>()[0] += rank == 0 ? 0.5f : -0.5f;
        if (!expected.rows) continue;
        tensor.type.shape.front() /= 2;
        const auto half = static_cast<std::ptrdiff_t>(tensor.bytes.size() / 2);
        tensor.bytes = std::vector<std::byte>(tensor.bytes.begin() + rank * half,
                                              tensor.bytes.begin() + (rank + 1) * half);
      }
    }
  }
  Equivalence judged() {
    std::vector<RankAnswers> answers;
    for (const auto& [rank, tensors] : ranks_) {
      std::vector<HostTensor> list;
      for (const auto& [name, tensor] : tensors) list.push_back(tensor);
      answers.push_back({exam_.folder() / ("verify-" + std::to_string(rank))});
      write_safetensors(answers.back().file, list);
    }
    return judge(exam_.exam(), exam_.program(), answers);
  }

  AnsweredExam exam_;
  std::map<int, std::map<std::string, HostTensor>> ranks_;
};

TEST_F(RankAnswersTest, AreJoinedToThoseOfTheWholeBatch) {
  const Equivalence result = judged();
  EXPECT_TRUE(result.passed) << result.reason;
  EXPECT_EQ(result.tensors.size(), exam_.expected().size() + exam_.continued().size());
}

TEST_F(RankAnswersTest, FailIfTheStateOfOneRankIsWrong) {
  ranks_[1].at("first/moment/fc1.weight.m").as<float>()[0] += 1;
  const Equivalence result = judged();
  EXPECT_FALSE(result.passed);
  EXPECT_GT(result.worst, 1);
  EXPECT_THAT(result.reason, AllOf(StartsWith("rank 1: "), HasSubstr("first/moment/fc1.weight.m")));
}

TEST_F(RankAnswersTest, FailIfTheMeanOfTheLossesIsWrong) {
  ranks_[1].at("last/loss").as<float>()[0] += 1;
  EXPECT_THAT(judged().reason, HasSubstr("last/loss"));
}

TEST_F(RankAnswersTest, FailIfTheRowsAreInAnotherOrder) {
  std::swap(ranks_[0].at("last/logits"), ranks_[1].at("last/logits"));
  EXPECT_THAT(judged().reason, HasSubstr("last/logits"));
}

TEST_F(RankAnswersTest, AreJudgedByTheRunningStatisticsOfTheFirstRank) {
  const std::vector<std::string> of_first_rank = {"first/running/bn1.running_mean",
                                                  "last/running/bn1.running_variance", "last/logits"};
  for (const std::string& name : of_first_rank) ranks_[1].at(name).as<float>()[0] += 1;
  EXPECT_TRUE(judged().passed) << judged().reason;
  for (const std::string& name : of_first_rank) {
    float& spoilt = ranks_[0].at(name).as<float>()[0];
    spoilt += 1;
    EXPECT_THAT(judged().reason, AllOf(StartsWith("rank 0: "), HasSubstr(name)));
    spoilt -= 1;
  }
  ranks_[1].at("evaluation/logits").as<float>()[0] += 1;
  EXPECT_THAT(judged().reason, HasSubstr("evaluation/logits")) << "before any step all have the same state";
}

TEST(RankTensors, AreJudgedOnEveryRankWithoutRunningStatistics) {
  Graph graph("plain");
  GraphBuilder builder(graph);
  const ValueId logits = builder.linear("fc1", builder.input("inputs", {4, 2}), 3);
  graph.add_output("logits", logits);
  graph.add_output("loss", builder.softmax_cross_entropy(logits, builder.label("labels", {4}), "loss"));
  const Program program{graph, graph, OptimizerSpec{}};
  for (const ExpectedTensor& expected :
       expected_tensors(program, Task::train, {.batch = 4, .distinct = 2}, false))
    EXPECT_FALSE(expected.of_first_rank) << expected.name;
}

TEST_F(RankAnswersTest, NameTheRankWhoseTensorIsMissing) {
  ranks_[1].erase("evaluation/logits");
  const Equivalence result = judged();
  EXPECT_FALSE(result.passed);
  EXPECT_THAT(result.reason, StartsWith("rank 1: evaluation/logits is missing"));
}

TEST_F(RankAnswersTest, FailWithoutTheFileOfARank) {
  const Equivalence result =
      judge(exam_.exam(), exam_.program(), {{exam_.worker_file()}, {exam_.folder() / "no-such-file"}});
  EXPECT_FALSE(result.passed);
  EXPECT_THAT(result.reason, StartsWith("rank 1: exam has no answers"));
}

}  // namespace
}  // namespace assay

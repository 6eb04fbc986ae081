#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "harness/conductor/check/oracle.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/graph/program.hpp"
#include "tests/unit/conductor/check/answered_exam.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

class OracleCacheTest : public ::testing::Test {
 protected:
  OracleCacheTest() : program_(tiny_program(12)) {
    write_exam(question_.exam, program_, {.seed = 3});
    worker_.command = {(folder_.path() / "worker").string()};
    std::ofstream(worker_.command.front()) << "build 1";
  }

  float ask(const fs::path& cache) {
    const OracleCache::Answers answers =
        OracleCache(cache, max_bytes_)
            .answers(question_, program_, worker_, folder_.path() / "scratch",
                     [this](const fs::path& folder) {
                       EXPECT_TRUE(fs::exists(folder / "request.json"));
                       HostTensor answer = HostTensor::zeros("first/loss", {DType::f32, {}});
                       answer.as<float>()[0] = static_cast<float>(++runs_);
                       fs::create_directories(folder / "results");
                       write_safetensors(folder / "results" / "oracle.safetensors",
                                         std::vector<HostTensor>{answer});
                     });
    cached_ = answers.cached;
    return read_safetensors(answers.file).front().as<float>()[0];
  }
  float ask() { return ask(folder_.path() / "cache"); }

  TemporaryFolder folder_;
  Program program_;
  OracleQuestion question_{folder_.path() / "exam", Task::train, PrecisionKind::fp32, 2};
  OracleWorker worker_;
  std::uintmax_t max_bytes_ = 1 << 20;
  int runs_ = 0;
  bool cached_ = false;
};

TEST_F(OracleCacheTest, asks_the_worker_once) {
  EXPECT_EQ(ask(), 1);
  EXPECT_FALSE(cached_);
  EXPECT_EQ(ask(), 1);
  EXPECT_TRUE(cached_);
  EXPECT_EQ(runs_, 1);
}

TEST_F(OracleCacheTest, AsksAgainForWhatItForgot) {
  ask();
  const auto forgotten = OracleCache(folder_.path() / "cache", max_bytes_)
                             .answers(question_, program_, worker_, folder_.path() / "scratch", {});
  EXPECT_TRUE(forgotten.cached);
  OracleCache::forget(forgotten);
  EXPECT_TRUE(fs::exists(forgotten.file)) << "who has the answers keeps them";
  EXPECT_EQ(ask(), 2);
}

TEST_F(OracleCacheTest, RemembersTheSharpestDrawOfAnExam) {
  const OracleCache cache(folder_.path() / "cache");
  EXPECT_EQ(cache.sharpest_draw("an exam"), std::nullopt);
  cache.note_sharpest_draw("an exam", 2);
  cache.note_sharpest_draw("another", 0);
  EXPECT_EQ(cache.sharpest_draw("an exam"), 2);
  EXPECT_EQ(cache.sharpest_draw("another"), 0);
  std::ofstream(folder_.path() / "cache/sharpest/another") << "no number";
  EXPECT_EQ(cache.sharpest_draw("another"), std::nullopt);
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::days(40);
  fs::last_write_time(folder_.path() / "cache/sharpest/an exam", long_ago);
  cache.note_sharpest_draw("another", 1);
  EXPECT_EQ(cache.sharpest_draw("an exam"), std::nullopt);
}

TEST_F(OracleCacheTest, asks_again_after_another_build_of_the_worker) {
  ask();
  std::ofstream(worker_.command.front()) << "build 2";
  EXPECT_EQ(ask(), 2);
}

TEST_F(OracleCacheTest, AsksAgainAfterAnotherScriptOrOptionOfTheWorker) {
  const fs::path script = folder_.path() / "worker.py";
  std::ofstream(script) << "version 1";
  worker_.command = {worker_.command.front(), script.string(), "--plain"};
  EXPECT_EQ(ask(), 1);
  EXPECT_EQ(ask(), 1);
  std::ofstream(script) << "version 2";
  EXPECT_EQ(ask(), 2);
  worker_.command.back() = "--other";
  EXPECT_EQ(ask(), 3);
}

TEST_F(OracleCacheTest, asks_again_for_another_precision_and_for_other_inputs) {
  ask();
  question_.precision = PrecisionKind::bf16;
  EXPECT_EQ(ask(), 2);
  write_exam(question_.exam, program_, {.seed = 4});
  EXPECT_EQ(ask(), 3);
}

TEST_F(OracleCacheTest, asks_again_for_another_optimizer) {
  ask();
  program_.optimizer->beta1 = 0.8;
  EXPECT_EQ(ask(), 2);
}

TEST_F(OracleCacheTest, AsksAgainForOtherSlicesOfABatchNorm) {
  ask();
  question_.slices = slices_of(program_, 2);
  EXPECT_EQ(question_.slices, 2);
  EXPECT_EQ(ask(), 2);
}

TEST_F(OracleCacheTest, makes_a_damaged_entry_again) {
  ask();
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "cache")) {
    if (entry.path().filename() == "oracle.safetensors") fs::resize_file(entry.path(), 10);
  }
  EXPECT_EQ(ask(), 2);
  EXPECT_EQ(ask(), 2);
}

TEST_F(OracleCacheTest, RemovesWhatWasNotUsedForLongestWhenItIsFull) {
  const auto ask_in = [this](PrecisionKind precision) {
    question_.precision = precision;
    return ask();
  };
  EXPECT_EQ(ask_in(PrecisionKind::fp32), 1);
  EXPECT_EQ(ask_in(PrecisionKind::bf16), 2);
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "cache")) {
    if (entry.path().filename() != "oracle.safetensors") continue;
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
    max_bytes_ = 2 * entry.file_size();
  }
  EXPECT_EQ(ask_in(PrecisionKind::fp32), 1) << "used again";
  EXPECT_EQ(ask_in(PrecisionKind::tf32), 3);
  EXPECT_EQ(ask_in(PrecisionKind::fp32), 1);
  EXPECT_EQ(ask_in(PrecisionKind::tf32), 3);
  EXPECT_EQ(ask_in(PrecisionKind::bf16), 4) << "removed";
}

TEST_F(OracleCacheTest, KeepsNothingThatIsLargerThanTheCache) {
  EXPECT_EQ(ask(), 1);
  question_.precision = PrecisionKind::bf16;
  max_bytes_ = 10;
  EXPECT_EQ(ask(), 2);
  EXPECT_EQ(ask(), 3);
  question_.precision = PrecisionKind::fp32;
  EXPECT_EQ(ask(), 1) << "it does not make room for it";
}

TEST_F(OracleCacheTest, works_without_a_place_to_keep_answers) {
  std::ofstream(folder_.path() / "file") << "in the way";
  EXPECT_EQ(ask(folder_.path() / "file" / "cache"), 1);
  EXPECT_EQ(ask({}), 2);
}

TEST_F(OracleCacheTest, keeps_nothing_of_a_worker_that_fails) {
  EXPECT_THROW(OracleCache(folder_.path() / "cache")
                   .answers(question_, program_, worker_, folder_.path() / "scratch", [](const fs::path&) {}),
               std::runtime_error);
  EXPECT_EQ(ask(), 1);
}

TEST_F(OracleCacheTest, gives_the_oracle_each_sample_once) {
  const fs::path folder = folder_.path() / "oracle";
  write_oracle_cell(folder, question_, program_, worker_);
  const ExamBatches batches = read_exam_batches(folder / "check/batches.json");
  EXPECT_EQ(batches.batch, 4);
  EXPECT_EQ(batches.row_of, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(read_npy(folder / "check/inputs.npy").bytes, read_npy(question_.exam / "inputs.npy").bytes);
  std::ifstream request(folder / "request.json");
  const nlohmann::json json = nlohmann::json::parse(request);
  EXPECT_EQ(json.at("precision"), "fp64");
  EXPECT_EQ(json.at("batch"), 4);
  EXPECT_EQ(json.at("oracle").at("precision"), "fp32");
  EXPECT_EQ(json.at("oracle").at("perturbations"), 2);
  std::ifstream graph(folder / "graph.json");
  EXPECT_EQ(batch_of(program_from_json(nlohmann::json::parse(graph))), 4);
}

}  // namespace
}  // namespace assay

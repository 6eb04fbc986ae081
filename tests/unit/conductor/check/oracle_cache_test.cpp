#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "harness/conductor/check/oracle.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/graph/program.hpp"
#include "tests/unit/conductor/check/answered_cell.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

class OracleCacheTest : public ::testing::Test {
 protected:
  OracleCacheTest() : program_(tiny_program(12)) {
    write_request(folder_.path() / "cell", PrecisionKind::fp32, Task::train);
    write_check(folder_.path() / "cell", program_, 3, 4);
    worker_.executable = folder_.path() / "worker";
    std::ofstream(worker_.executable) << "build 1";
  }

  float ask(const fs::path& cache) {
    const fs::path answers = OracleCache(cache).answers(
        folder_.path() / "cell", program_, worker_, folder_.path() / "scratch",
        [this](const fs::path& folder) {
          EXPECT_TRUE(fs::exists(folder / "request.json"));
          HostTensor answer = HostTensor::zeros("check/training/loss", {DType::f32, {}});
          answer.as<float>()[0] = static_cast<float>(++runs_);
          fs::create_directories(folder / "results");
          write_safetensors(folder / "results" / "oracle.safetensors", std::vector<HostTensor>{answer});
        });
    return read_safetensors(answers).front().as<float>()[0];
  }
  float ask() { return ask(folder_.path() / "cache"); }

  TemporaryFolder folder_;
  Program program_;
  OracleWorker worker_;
  int runs_ = 0;
};

TEST_F(OracleCacheTest, asks_the_worker_once) {
  EXPECT_EQ(ask(), 1);
  EXPECT_EQ(ask(), 1);
  EXPECT_EQ(runs_, 1);
}

TEST_F(OracleCacheTest, asks_again_after_another_build_of_the_worker) {
  ask();
  std::ofstream(worker_.executable) << "build 2";
  EXPECT_EQ(ask(), 2);
}

TEST_F(OracleCacheTest, asks_again_for_another_precision_and_for_other_inputs) {
  ask();
  write_request(folder_.path() / "cell", PrecisionKind::bf16, Task::train);
  EXPECT_EQ(ask(), 2);
  write_check(folder_.path() / "cell", program_, 4, 4);
  EXPECT_EQ(ask(), 3);
}

TEST_F(OracleCacheTest, asks_again_for_another_optimizer) {
  ask();
  program_.optimizer.beta1 = 0.8;
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

TEST_F(OracleCacheTest, works_without_a_place_to_keep_answers) {
  std::ofstream(folder_.path() / "file") << "in the way";
  EXPECT_EQ(ask(folder_.path() / "file" / "cache"), 1);
  EXPECT_EQ(ask({}), 2);
}

TEST_F(OracleCacheTest, keeps_nothing_of_a_worker_that_fails) {
  EXPECT_THROW(OracleCache(folder_.path() / "cache")
                   .answers(folder_.path() / "cell", program_, worker_, folder_.path() / "scratch",
                            [](const fs::path&) {}),
               std::runtime_error);
  EXPECT_EQ(ask(), 1);
}

TEST_F(OracleCacheTest, gives_the_oracle_each_sample_once) {
  const fs::path folder = folder_.path() / "oracle";
  const fs::path cell = folder_.path() / "cell";
  write_oracle_cell(folder, cell, program_, worker_);
  const CheckBatch batch = read_check_batch(cell);
  const HostTensor all = read_npy(cell / "check" / "inputs.npy");
  const HostTensor samples = read_npy(folder / "check" / "inputs.npy");
  ASSERT_EQ(samples.type.shape, (Shape{4, 1, 4, 4}));
  for (std::size_t row = 0; row < batch.row_of.size(); ++row) {
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(all.as<float>()[16 * row + i],
                samples.as<float>()[16 * static_cast<std::size_t>(batch.row_of[row]) + i]);
    }
  }
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

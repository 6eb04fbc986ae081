#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/conductor/check/oracle.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/json/strict_json.hpp"
#include "tests/unit/conductor/check/answered_cell.hpp"

namespace assay {
namespace {

TEST(CheckInputs, takes_the_largest_divisor_of_the_batch_for_the_distinct_samples) {
  EXPECT_EQ(distinct_samples(200, 8), 8);
  EXPECT_EQ(distinct_samples(32, 8), 8);
  EXPECT_EQ(distinct_samples(10, 8), 5);
  EXPECT_EQ(distinct_samples(7, 8), 7);
  EXPECT_EQ(distinct_samples(1, 8), 1);
}

TEST(CheckInputs, makes_a_batch_without_a_fitting_divisor_of_more_distinct_samples) {
  EXPECT_EQ(distinct_samples(13, 8), 13);
  EXPECT_EQ(distinct_samples(26, 8), 13);
  EXPECT_EQ(distinct_samples(9, 8), 9);
  EXPECT_THROW(distinct_samples(0, 8), std::invalid_argument);
}

class WrittenCheck : public ::testing::Test {
 protected:
  WrittenCheck() : program_(tiny_program(32)), batch_(write_check(folder_.path(), program_, 5)) {}
  std::filesystem::path check(const char* name) const { return folder_.path() / "check" / name; }

  TemporaryFolder folder_;
  Program program_;
  CheckBatch batch_;
};

TEST_F(WrittenCheck, has_no_parameter_that_is_zero_or_one) {
  std::size_t count = 0;
  for (const HostTensor& tensor : read_safetensors(check("parameters.safetensors"))) {
    for (const float value : tensor.as<float>()) {
      EXPECT_GT(std::abs(value), 0.01) << tensor.name;
      EXPECT_GT(std::abs(std::abs(value) - 1), 0.01) << tensor.name;
      EXPECT_LT(std::abs(value), 3) << tensor.name;
    }
    if (tensor.name == "bn1.running_var") {
      EXPECT_GT(*std::min_element(tensor.as<float>().begin(), tensor.as<float>().end()), 0);
    }
    ++count;
  }
  EXPECT_EQ(count, program_.training.with_role(Role::parameter).size() +
                       program_.training.with_role(Role::state).size());
}

TEST_F(WrittenCheck, repeats_each_sample_equally_often_in_no_plain_order) {
  std::vector<int> times(static_cast<std::size_t>(batch_.distinct));
  for (const std::int64_t row : batch_.row_of) ++times.at(static_cast<std::size_t>(row));
  EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](int n) { return n == 4; }));
  EXPECT_FALSE(std::is_sorted(batch_.row_of.begin(), batch_.row_of.end()));
}

TEST_F(WrittenCheck, has_rows_that_are_equal_exactly_when_the_sample_is) {
  const HostTensor inputs = read_npy(check("inputs.npy"));
  const HostTensor labels = read_npy(check("labels.npy"));
  ASSERT_EQ(inputs.type, (TensorType{DType::f32, {32, 1, 4, 4}}));
  ASSERT_EQ(labels.type, (TensorType{DType::i32, {32}}));
  std::map<std::vector<float>, std::int64_t> samples;
  for (std::size_t r = 0; r < 32; ++r) {
    const std::span<const float> row = inputs.as<float>().subspan(16 * r, 16);
    const auto found = samples.emplace(std::vector<float>(row.begin(), row.end()), batch_.row_of[r]).first;
    EXPECT_EQ(found->second, batch_.row_of[r]);
  }
  EXPECT_EQ(samples.size(), 8u);
  const std::set<std::int32_t> classes(labels.as<std::int32_t>().begin(), labels.as<std::int32_t>().end());
  EXPECT_EQ(classes, (std::set<std::int32_t>{0, 1, 2}));
}

TEST_F(WrittenCheck, has_a_schedule_in_which_no_two_steps_are_alike) {
  const std::vector<double> schedule = TensorFile::read_array(check("schedule.npy"));
  ASSERT_EQ(schedule.size(), 6u);
  EXPECT_EQ(schedule[1], 1);
  EXPECT_EQ(schedule[3], 2);
  EXPECT_EQ(schedule[5], 3);
  EXPECT_NE(schedule[0], schedule[2]);
  EXPECT_NE(schedule[2], schedule[4]);
}

TEST_F(WrittenCheck, is_the_same_again_and_another_with_another_seed) {
  TemporaryFolder again, other;
  write_check(again.path(), program_, 5);
  write_check(other.path(), program_, 6);
  const auto inputs = [](const std::filesystem::path& folder) {
    return read_npy(folder / "check" / "inputs.npy").bytes;
  };
  EXPECT_EQ(inputs(again.path()), inputs(folder_.path()));
  EXPECT_NE(inputs(other.path()), inputs(folder_.path()));
}

TEST_F(WrittenCheck, is_read_back) {
  const CheckBatch read = read_check_batch(folder_.path());
  EXPECT_EQ(read.batch, 32);
  EXPECT_EQ(read.distinct, 8);
  EXPECT_EQ(read.row_of, batch_.row_of);
  std::ofstream(check("batch.json")) << R"({"batch": 3, "distinct": 1, "row_of": [0, 0, 7]})";
  EXPECT_THROW(read_check_batch(folder_.path()), JsonError);
  std::ofstream(check("batch.json")) << "[";
  EXPECT_THROW(read_check_batch(folder_.path()), JsonError);
}

TEST(Rebatch, changes_the_rows_and_nothing_else) {
  const Program program = tiny_program(32);
  const Program small = with_batch(program, 8);
  EXPECT_EQ(batch_of(small), 8);
  const Graph& graph = small.training;
  EXPECT_EQ(graph.value(graph.output("logits")).type.shape, (Shape{8, 3}));
  EXPECT_EQ(graph.value(graph.output("loss")).type.shape, Shape{});
  EXPECT_EQ(graph.nodes().size(), program.training.nodes().size());
  EXPECT_EQ(graph.updates().size(), program.training.updates().size());
  for (const ValueId id : program.training.with_role(Role::parameter)) {
    const Value& value = program.training.value(id);
    ASSERT_NE(graph.find(value.name), none);
    EXPECT_EQ(graph.value(graph.find(value.name)).type, value.type);
  }
}

}  // namespace
}  // namespace assay

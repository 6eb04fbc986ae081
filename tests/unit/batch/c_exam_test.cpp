#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/batch/c_api.h"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/safetensors.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// An inference of two batches with one sample of two numbers.
class BatchExam : public testing::Test {
 protected:
  BatchExam() {
    const fs::path check = folder() / "check";
    fs::create_directories(check);
    HostTensor inputs = HostTensor::zeros("inputs", {DType::f32, {2, 2}});
    for (std::size_t i = 0; i < 4; ++i) inputs.as<float>()[i] = static_cast<float>(i + 1);
    write_npy(check / "inputs.npy", inputs);
    write_npy(check / "labels.npy", HostTensor::zeros("labels", {DType::i32, {2}}));
    write_npy(check / "schedule.npy", HostTensor::zeros("schedule", {DType::f64, {2, 2}}));
    write_safetensors(check / "state.safetensors", std::vector{HostTensor::zeros("w", {DType::f32, {3}})});
    write_atomically(check / "batches.json", R"({"batch": 1, "distinct": 1, "row_of": [0], "slots": [1, 0]})",
                     false);
    write_atomically(check / "exam.json", R"({"kind": "inference", "parameters": ["w"], "running": []})",
                     false);
  }

  fs::path folder() const { return folder_.path(); }
  fs::path answers() const { return folder() / "results/verify.safetensors"; }
  assay_exam* open() const { return assay_exam_open(folder().c_str(), -1, 0); }

 private:
  TemporaryFolder folder_;
};

assay_tensor tensor_of(const char* name, std::int64_t type, const void* data,
                       const std::vector<std::int64_t>& shape) {
  assay_tensor tensor{.name = name, .type = type, .rank = std::ssize(shape), .shape = {}, .data = data};
  std::ranges::copy(shape, tensor.shape);
  return tensor;
}

TEST_F(BatchExam, HandsOutWhatToDoAndWritesWhatItGets) {
  assay_exam* exam = open();
  ASSERT_NE(exam, nullptr) << assay_last_error();
  assay_exam_action action = {};
  std::vector<std::int32_t> kinds;
  std::vector<float> firsts;
  float sum = 0;
  while (assay_exam_next(exam, &action) == 1) {
    kinds.push_back(action.kind);
    if (action.kind == ASSAY_EXAM_SET_STATE) {
      ASSERT_EQ(action.count, 1);
      EXPECT_STREQ(action.tensors[0].name, "w");
      EXPECT_EQ(action.tensors[0].shape[0], 3);
    }
    if (action.kind == ASSAY_EXAM_STAGE) {
      ASSERT_EQ(action.count, 2) << "inputs and labels";
      firsts.push_back(static_cast<const float*>(action.tensors[0].data)[0]);
    }
    if (action.kind == ASSAY_EXAM_STEP) sum += static_cast<float>(10 + action.slot);
    if (action.kind != ASSAY_EXAM_RESULTS) continue;
    const assay_tensor logits = tensor_of("logits", ASSAY_F32, &sum, {1, 1});
    ASSERT_EQ(assay_exam_give(exam, &logits), 0) << assay_last_error();
  }
  EXPECT_THAT(kinds, ElementsAre(ASSAY_EXAM_SET_STATE, ASSAY_EXAM_STAGE, ASSAY_EXAM_STAGE, ASSAY_EXAM_STEP,
                                 ASSAY_EXAM_SYNCHRONIZE, ASSAY_EXAM_RESULTS, ASSAY_EXAM_STEP,
                                 ASSAY_EXAM_SYNCHRONIZE, ASSAY_EXAM_RESULTS));
  EXPECT_THAT(firsts, ElementsAre(1, 3));
  EXPECT_FALSE(fs::exists(answers()));
  ASSERT_EQ(assay_exam_close(exam), 0) << assay_last_error();
  const std::vector<HostTensor> written = read_safetensors(answers());
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].name, "logits");
  EXPECT_EQ(written[0].type.shape, (Shape{2, 1, 1}));
  EXPECT_THAT(written[0].as<float>(), ElementsAre(11, 21));
}

TEST_F(BatchExam, RefusesTensorsThatAreNone) {
  assay_exam* exam = open();
  ASSERT_NE(exam, nullptr);
  const float value = 1;
  EXPECT_EQ(assay_exam_give(exam, nullptr), -1);
  for (const assay_tensor& tensor :
       {tensor_of(nullptr, ASSAY_F32, &value, {1}), tensor_of("x", ASSAY_F32, nullptr, {1}),
        tensor_of("x", 9, &value, {1}), tensor_of("x", -1, &value, {1}),
        tensor_of("x", ASSAY_F32, &value, {-1}), tensor_of("x", ASSAY_F32, &value, {1LL << 62, 8})}) {
    EXPECT_EQ(assay_exam_give(exam, &tensor), -1);
    EXPECT_STRNE(assay_last_error(), "");
  }
  assay_tensor deep = tensor_of("x", ASSAY_F32, &value, {1});
  deep.rank = 9;
  EXPECT_EQ(assay_exam_give(exam, &deep), -1);
  EXPECT_EQ(assay_exam_close(exam), 0);
}

TEST_F(BatchExam, WritesNothingIfItIsNotDone) {
  assay_exam* exam = open();
  assay_exam_action action = {};
  ASSERT_EQ(assay_exam_next(exam, &action), 1);
  EXPECT_EQ(assay_exam_close(exam), 0);
  EXPECT_FALSE(fs::exists(answers()));
  EXPECT_EQ(assay_exam_close(exam), -1);
  EXPECT_THAT(assay_last_error(), HasSubstr("not open"));
  EXPECT_EQ(assay_exam_next(exam, &action), -1);
  EXPECT_EQ(assay_exam_close(nullptr), 0);
}

TEST_F(BatchExam, RefusesToTakeNoSlotsInTurn) {
  assay_exam* exam = open();
  EXPECT_EQ(assay_exam_slots_in_turn(exam, 4), 0);
  EXPECT_EQ(assay_exam_slots_in_turn(exam, 0), -1);
  EXPECT_EQ(assay_exam_slots_in_turn(nullptr, 4), -1);
  EXPECT_EQ(assay_exam_close(exam), 0);
}

TEST_F(BatchExam, EndsIfAResultIsMissing) {
  write_atomically(folder() / "check/exam.json",
                   R"({"kind": "decoding", "generated": 2, "parameters": [], "running": []})", false);
  assay_exam* exam = open();
  assay_exam_action action = {};
  int more = 1;
  while (more == 1) more = assay_exam_next(exam, &action);
  EXPECT_EQ(more, -1);
  EXPECT_THAT(assay_last_error(), HasSubstr("logits"));
  EXPECT_EQ(assay_exam_next(exam, &action), -1) << "it stays ended";
  EXPECT_EQ(assay_exam_close(exam), 0);
}

TEST_F(BatchExam, NamesAFileThatIsMissing) {
  fs::remove(folder() / "check/exam.json");
  EXPECT_EQ(open(), nullptr);
  EXPECT_THAT(assay_last_error(), HasSubstr("check/exam.json"));
  EXPECT_EQ(assay_exam_open(nullptr, -1, 0), nullptr);
  EXPECT_THAT(assay_last_error(), HasSubstr("null cell folder"));
}

}  // namespace
}  // namespace assay

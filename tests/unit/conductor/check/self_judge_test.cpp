#include "harness/conductor/check/self_judge.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/graph/builder.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

// One dropout of a quarter.
Program dropping() {
  Graph graph("dropping");
  GraphBuilder b(graph);
  const ValueId x = b.dropout(b.input("inputs", {100, 100}), 0.25, "drop");
  graph.add_output("logits", x);
  return {graph, Graph("none"), {}};
}

TensorVerdict verdict_on(const std::vector<float>& counts) {
  TemporaryFolder folder;
  HostTensor tensor = HostTensor::zeros("draws/drop.mask", {DType::f32, {6}});
  std::ranges::copy(counts, tensor.as<float>().begin());
  write_safetensors(folder.path() / "verify.safetensors", std::vector{tensor});
  const auto verdicts =
      judge_draws(TensorFile::read(folder.path() / "verify.safetensors"), dropping(), Task::train);
  EXPECT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts.front().name, "draws/drop.mask");
  return verdicts.front();
}

// 7,500 of 10,000 elements are kept, plus or minus 43, and 6,250 are equal in two draws. 5,000 pairs of elements
// are in two rows of one draw.
TEST(DrawJudge, passes_honest_draws) {
  EXPECT_LE(verdict_on({7500, 7500, 6250, 10000, 3125, 5000}).ratio, 0.01);
  EXPECT_LE(verdict_on({7440, 7570, 6190, 10000, 3125, 5000}).ratio, 1);
}

TEST(DrawJudge, finds_another_rate_in_either_draw) {
  EXPECT_GT(verdict_on({7000, 7500, 6250, 10000, 3125, 5000}).ratio, 1);
  EXPECT_GT(verdict_on({7500, 8000, 6250, 10000, 3125, 5000}).ratio, 1);
}

TEST(DrawJudge, finds_a_mask_that_comes_again) {
  EXPECT_GT(verdict_on({7500, 7500, 10000, 10000, 3125, 5000}).ratio, 10);
}

TEST(DrawJudge, finds_a_dropout_that_drops_nothing) {
  EXPECT_GT(verdict_on({10000, 10000, 10000, 10000, 3125, 5000}).ratio, 10);
}

TEST(DrawJudge, FindsAMaskThatIsUsedForAllRows) {
  EXPECT_GT(verdict_on({7500, 7500, 6250, 10000, 5000, 5000}).ratio, 5);
}

TEST(DrawJudge, JudgesNoRowsWhereABatchHasOne) {
  EXPECT_LE(verdict_on({7500, 7500, 6250, 10000, 0, 0}).ratio, 0.01);
}

TEST(DrawJudge, a_program_that_shows_nothing_is_wrong) {
  EXPECT_EQ(verdict_on({0, 0, 0, 0, 0, 0}).ratio, beyond_measure);
}

TEST(DrawJudge, SaysNoErrorBeyondMeasure) {
  EXPECT_EQ(verdict_on({3e38f, 7500, 6250, 1, 0, 0}).ratio, beyond_measure);
}

// One parameter and no moments; a worker's report of its continuation.
double continuation_ratio(const std::vector<float>& numbers, const std::set<std::string>& noisy = {},
                          bool deterministic = false) {
  Graph graph("continued");
  GraphBuilder b(graph);
  b.parameter("w", {2}, "zeros");
  TemporaryFolder folder;
  HostTensor tensor = HostTensor::zeros("continuation/w", {DType::f32, {5}});
  std::ranges::copy(numbers, tensor.as<float>().begin());
  write_safetensors(folder.path() / "verify.safetensors", std::vector{tensor});
  OptimizerSpec sgd;
  sgd.kind = "sgd";
  sgd.momentum = 0;
  const auto verdicts =
      judge_continuation(TensorFile::read(folder.path() / "verify.safetensors"), {graph, Graph("none"), sgd},
                         precision_of(PrecisionKind::fp32), noisy, deterministic);
  EXPECT_EQ(verdicts.size(), 1u);
  return verdicts.front().ratio;
}

TEST(ContinuationJudge, FindsDistancesThatNobodyHas) {
  EXPECT_LT(continuation_ratio({1e-6f, 1e-6f, 1, 1}), 1);
  EXPECT_GT(continuation_ratio({1, 1, 1, 1}), 1);
  EXPECT_EQ(continuation_ratio({1, 1, -1e30f, 1}), beyond_measure);
  EXPECT_EQ(continuation_ratio({1, -1, 1, 1}), beyond_measure);
  EXPECT_EQ(continuation_ratio({1, 1, INFINITY, 1}), beyond_measure);
}

TEST(ContinuationJudge, ProgramsThatRoundDifferentlyEachTimeMayDifferAsTheirOwnRunsDo) {
  EXPECT_GT(continuation_ratio({0.1f, 0.1f, 1, 1, 0}), 1);
  EXPECT_LT(continuation_ratio({0.1f, 0.1f, 1, 1, 0.02f}), 1);
  EXPECT_GT(continuation_ratio({0.2f, 0.2f, 1, 1, 0.02f}), 1);
  EXPECT_GT(continuation_ratio({2, 2, 1, 1, 2}), 1) << "that is more than all that the steps changed";
  EXPECT_LT(continuation_ratio({2, 2, 0.1f, 1, 2}, {"w"}), 1);
  EXPECT_EQ(continuation_ratio({0.1f, 0.1f, 1, 1, -1}), beyond_measure);
}

TEST(ContinuationJudge, ADeterministicProgramHasTheSameBits) {
  EXPECT_EQ(continuation_ratio({0, 0, 1, 1, 0}, {}, true), 0);
  EXPECT_EQ(continuation_ratio({1e-9f, 1e-9f, 1, 1, 1}, {}, true), beyond_measure);
  EXPECT_EQ(continuation_ratio({1e-9f, 1e-9f, 1, 1, 1}, {"w"}, true), beyond_measure);
}

TEST(ContinuationJudge, a_parameter_that_only_rounding_moves_may_end_elsewhere_after_each_run) {
  EXPECT_GT(continuation_ratio({2e-6f, 2e-6f, 1e-6f, 1}), 1);
  EXPECT_LT(continuation_ratio({2e-6f, 2e-6f, 1e-6f, 1}, {"w"}), 1);
  EXPECT_GT(continuation_ratio({1e-5f, 1e-5f, 1e-6f, 1}, {"w"}), 1);
}

TEST(ContinuationJudge, NamesTheFirstParameterThatIsNotFinite) {
  Graph graph("continued");
  GraphBuilder b(graph);
  b.parameter("a", {2}, "zeros");
  b.parameter("w", {2}, "zeros");
  const TemporaryFolder folder;
  const auto named = [&](float size) {
    std::vector<HostTensor> tensors;
    for (const char* name : {"continuation/a", "continuation/w"}) {
      tensors.push_back(HostTensor::zeros(name, {DType::f32, {5}}));
      tensors.back().as<float>()[3] = 1;
    }
    tensors.back().as<float>()[3] = size;
    write_safetensors(folder.path() / "verify.safetensors", tensors);
    return first_not_finite(TensorFile::read(folder.path() / "verify.safetensors"),
                            {graph, Graph("none"), {}});
  };
  EXPECT_EQ(named(NAN), "w");
  EXPECT_EQ(named(INFINITY), "w");
  EXPECT_EQ(named(3e38F), "");
}

TEST(ContinuationJudge, BlamesTheRunOnlyIfTheExamWasPassed) {
  Equivalence verified;
  const auto add = [&](const char* name, double ratio) {
    verified.tensors.push_back({name, 0, 0, 0, 0, ratio});
  };
  add("gradient/w", 1);
  add("continuation/w", beyond_measure);
  add("replay/7", beyond_measure);
  EXPECT_TRUE(differs_only_after_run(verified));
  add("loss", 1.1);
  EXPECT_FALSE(differs_only_after_run(verified));
}

}  // namespace
}  // namespace assay

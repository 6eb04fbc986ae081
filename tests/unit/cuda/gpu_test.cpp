// On a machine with a GPU: the search for engines, which deterministic tests do not run, and whether the
// libraries have an engine for each shape of our networks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backends/cuda/choices.hpp"
#include "backends/cuda/gpu/check.hpp"
#include "backends/cuda/gpu/frontend.hpp"
#include "backends/cuda/library.hpp"
#include "backends/reference/reference_backend.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "harness/engine/lowered_graph.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "tests/relative_error.hpp"
#include "tests/unit/engine/programs.hpp"
#include "workloads/ops/op_workload.hpp"

namespace assay::cuda {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class Gpu : public ::testing::TestWithParam<PrecisionKind> {
 protected:
  void SetUp() override {
    try {
      make_kernel_library(searching());
    } catch (const Unavailable& error) {
      GTEST_SKIP() << error.what();
    }
  }
  static CompileOptions searching() {
    CompileOptions options = testing::options("graph", GetParam());
    options.deterministic = false;
    return options;
  }
};

// 3x3 convolutions in all three directions.
TEST_P(Gpu, MeasuresTheEnginesOfEachConvolution) {
  const Program program = testing::residual_program(8);
  const auto library = make_kernel_library(searching());
  const LoweredGraph lowered =
      lower(training_step(program, {searching().precision, false, false}), *library, {});
  std::set<std::string> kinds;
  for (const LoweredStep& step : lowered.steps) {
    if (!step.op.starts_with("convolution")) continue;
    kinds.insert(step.op);
    EXPECT_THAT(std::string(step.kernel->implementation()), EndsWith(":measured")) << step.node;
  }
  EXPECT_EQ(kinds.size(), 3U);
}

TEST_P(Gpu, AgreesWithTheReferenceOnMeasuredEngines) {
  for (const Program& program : {testing::residual_program(8), find_workload("lenet5").build(4)}) {
    KernelExecutable ours(program, searching(), make_kernel_library(searching()));
    reference::ReferenceBackend oracle;
    const auto theirs = oracle.compile(program, testing::options("eager", PrecisionKind::fp64));
    const auto rounded = oracle.compile(program, testing::options("eager", GetParam()));
    const auto parameters = testing::parameters(program, 1);
    const testing::Batch batch = testing::batch(program, 1);
    for (Executable* executable : {static_cast<Executable*>(&ours), theirs.get(), rounded.get()})
      executable->set_state(parameters);
    const auto got = ours.gradients(batch.host()), expected = theirs->gradients(batch.host());
    const auto emulated = rounded->gradients(batch.host());
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // The bias in front of a batch norm has no gradient but rounding.
      if (got[i].name == "gradient/conv2.bias" && program.training->find("bn2.weight") != none) continue;
      // As for a cell: three times the error of an emulation where storage is narrow.
      const double bound = std::max(3 * testing::relative_error(emulated[i], expected[i]),
                                    GetParam() == PrecisionKind::bf16 ? 1e-3 : 5e-5);
      EXPECT_LT(testing::relative_error(got[i], expected[i]), bound) << expected[i].name;
    }
  }
}

// Causal with fewer heads of k and v, and all queries to all keys: cuDNN has them in different forms.
TEST_P(Gpu, AttentionAgreesWithTheReferenceOnMeasuredEngines) {
  for (const char* size : {"n2t64h4d32g2c1", "n2t64h4d32"}) {
    SCOPED_TRACE(size);
    const Program program = find_op_workload("op/attention").program(size);
    std::vector<float> operands(static_cast<std::size_t>(input_elements(*program.training)));
    for (std::size_t i = 0; i < operands.size(); ++i) operands[i] = testing::noise(1, i);
    KernelExecutable ours(program, searching(), make_kernel_library(searching()));
    reference::ReferenceBackend oracle;
    const auto theirs = oracle.compile(program, testing::options("eager", PrecisionKind::fp64));
    const auto rounded = oracle.compile(program, testing::options("eager", GetParam()));
    std::vector<std::vector<HostTensor>> results;
    for (Executable* executable : {static_cast<Executable*>(&ours), theirs.get(), rounded.get()}) {
      executable->set_state({});
      executable->stage(0, {operands.data(), nullptr});
      executable->step(0, 0, 1);
      results.push_back(executable->results());
    }
    ASSERT_EQ(results[0].size(), 4U) << "y and three gradients";
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      const double bound = std::max(3 * testing::relative_error(results[2][i], results[1][i]),
                                    GetParam() == PrecisionKind::bf16 ? 1e-3 : 5e-5);
      EXPECT_LT(testing::relative_error(results[0][i], results[1][i]), bound) << results[1][i].name;
    }
  }
}

TEST_P(Gpu, HasALibrarysEngineForEveryShapeOfOurNetworks) {
  for (const char* workload : {"mlp", "lenet5", "cnn", "resnet56", "lstm", "nanogpt"}) {
    CompileOptions options = searching();
    options.deterministic = true;  // quick
    const auto choices = std::make_shared<Choices>();
    const auto library = make_kernel_library(options, choices);
    lower(training_step(find_workload(workload).build(32), {options.precision, false, false}), *library, {});
    EXPECT_EQ(choices->fallbacks(), "none") << workload;
  }
}

// What cuDNN reads from the device; gpus/*.json have the same form, and plans_test plans for them.
TEST(Description, OfTheDeviceIsPrinted) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "a GPU is missing";
  cudnn_frontend::DeviceProperties properties;
  check_frontend("read the device", properties.set_device_id(0).build());
  std::vector<std::uint8_t> text;
  check_frontend("describe the device", properties.serialize(text));
  const std::string json(text.begin(), text.end());
  fmt::print("{}\n", json);
  EXPECT_THAT(json, HasSubstr("\"deviceName\""));
}

INSTANTIATE_TEST_SUITE_P(Precisions, Gpu, ::testing::Values(PrecisionKind::fp32, PrecisionKind::bf16),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace assay::cuda

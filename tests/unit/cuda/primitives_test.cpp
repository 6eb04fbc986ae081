// Mode primitives: NVIDIA's libraries, and nothing of ours that it does not name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backends/cuda/library.hpp"
#include "backends/cuda/own_attention.hpp"
#include "backends/cuda/primitives/ops.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "harness/engine/lowered_graph.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "tests/unit/engine/programs.hpp"
#include "workloads/ops/op_workload.hpp"
#include "workloads/workload.hpp"

namespace assay::cuda {
namespace {

using ::testing::HasSubstr;

CompileOptions options(const std::string& mode, PrecisionKind precision = PrecisionKind::fp32) {
  CompileOptions options;
  options.mode = mode;
  options.precision = precision_of(precision);
  options.threads = 1;
  return options;
}

// The calls that a device got.
struct Asked {
  std::vector<bool> bare;  // of each product, convolution and LSTM
  int recorded = 0;
  std::size_t parts = 0;  // of what was recorded last
};

// The host's device; each thing that is asked of it is written down. It can capture, which the host's cannot.
class WatchedDevice final : public Device {
 public:
  explicit WatchedDevice(Asked& asked) : asked_(asked), device_(open_device({})) {}

  Memory& memory() override { return device_->memory(); }
  Stream stream() override { return device_->stream(); }
  std::unique_ptr<Matmul> matmul(const MatmulSpec& spec) override {
    asked_.bare.push_back(spec.bare);
    return device_->matmul(spec);
  }
  std::shared_ptr<Convolution> convolution(const ConvolutionSpec& spec) override {
    asked_.bare.push_back(spec.bare);
    return device_->convolution(spec);
  }
  std::shared_ptr<Norm> norm(const NormSpec& spec) override { return device_->norm(spec); }
  // Its products are asked of this device.
  std::shared_ptr<Attention> attention(const AttentionSpec& spec) override {
    return make_own_attention(spec, *this);
  }
  std::shared_ptr<Lstm> lstm(const LstmSpec& spec) override {
    asked_.bare.push_back(spec.bare);
    return device_->lstm(spec);
  }
  Calls& calls() override { return device_->calls(); }
  std::unique_ptr<Recording> record(std::span<const GraphPart> parts, std::size_t) override {
    ++asked_.recorded;
    asked_.parts = parts.size();
    return nullptr;
  }
  void synchronize() override { device_->synchronize(); }

 private:
  Asked& asked_;
  std::unique_ptr<Device> device_;
};

std::unique_ptr<PrimitivesLibrary> watched_library(Asked& asked, bool tf32, bool captured = false) {
  return std::make_unique<PrimitivesLibrary>(std::make_unique<WatchedDevice>(asked), tf32, captured);
}

bool runs_ours(const LoweredStep& step) {
  return step.kernel->implementation().find("own:") != std::string_view::npos;
}

struct Subject {
  const char* workload;
  PrecisionKind precision;
};
void PrintTo(const Subject& s, std::ostream* stream) {
  *stream << s.workload << ' ' << to_string(s.precision);
}

class Primitives : public ::testing::TestWithParam<Subject> {};

TEST_P(Primitives, RunOurKernelsOnlyForTheNodesThatAreNamed) {
  const auto [workload, precision] = GetParam();
  const Graph step = training_step(testing::small_form(workload), {precision_of(precision), false, false});
  std::set<std::string> outside, with_masks;
  for (const Node& node : step.nodes()) {
    if (primitives::is_outside_of_library(node)) outside.insert(node.name);
    for (const ValueId input : node.inputs)
      if (input != none && !is_floating(step.value(input).type.dtype)) with_masks.insert(node.name);
  }
  Asked asked;
  const auto library = watched_library(asked, precision == PrecisionKind::tf32);
  const LoweredGraph lowered = lower(step, *library, {});
  ASSERT_FALSE(lowered.steps.empty());
  for (const LoweredStep& one : lowered.steps) {
    const auto place = fmt::format("{} {}: {}", one.op, one.node, one.kernel->implementation());
    if (one.op == "reorder") {
      // cuDNN converts layouts of numbers; a mask is bytes.
      EXPECT_TRUE(!runs_ours(one) || with_masks.contains(one.node)) << place;
    } else {
      EXPECT_EQ(runs_ours(one), outside.contains(one.node)) << place;
    }
  }
  EXPECT_FALSE(asked.bare.empty());
  EXPECT_EQ(std::ranges::count(asked.bare, false), 0) << "of " << asked.bare.size();
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const char* workload :
       {"mlp", "lenet5", "cnn", "cifar10-cnn", "lstm", "resnet56", "minilm", "nanogpt", "vit-tiny"}) {
    for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::tf32, PrecisionKind::bf16})
      all.push_back({workload, precision});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Workloads, Primitives, ::testing::ValuesIn(subjects()), [](const auto& subject) {
  std::string name =
      subject.param.workload + std::string("_") + std::string(to_string(subject.param.precision));
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(PrimitivesMode, NamesTheOpsOutsideOfTheLibrary) {
  const auto named = [](const Program& program, Task task) {
    CompileOptions asked = options(primitives_mode);
    asked.task = task;
    return ops_of_step(program, asked, primitives::is_outside_of_library);
  };
  EXPECT_EQ(named(testing::small_form("mlp"), Task::train),
            "adam, softmax_cross_entropy, softmax_cross_entropy_gradient");
  EXPECT_EQ(named(testing::small_form("lstm"), Task::infer), "embedding");
  EXPECT_EQ(named(find_op_workload("op/relu").program("16"), Task::infer), "none");
}

TEST(PrimitivesMode, FusesNothingAndUpdatesEachTensorByItself) {
  const Program program = testing::small_form("lenet5");
  const Graph step = training_step(program, {});
  const auto bare = make_kernel_library(options(primitives_mode));
  const Graph lowered = bare->fuse(step);
  EXPECT_EQ(lowered.nodes().size(), step.nodes().size());
  const auto parameters = std::ranges::count(program.training->values(), Role::parameter, &Value::role);
  const auto is_update = [](const Node& node) { return node.op->repeats() > 0; };
  EXPECT_EQ(std::ranges::count_if(lowered.nodes(), is_update), parameters);
}

TEST(PrimitivesMode, GivesEachTensorItsOwnMemory) {
  const Program program = testing::small_form("resnet56");  // deep: the planner saves most there
  const auto arena = [&](const char* mode) {
    const CompileOptions asked = options(mode);
    return KernelExecutable(program, asked, make_kernel_library(asked)).memory().at("planned_arena");
  };
  EXPECT_GT(arena(primitives_mode), 2 * arena("graph"));
}

TEST(PrimitivesMode, CapturesAGraphOnlyInTheModeThatIsCalledSo) {
  const Program program = testing::small_form("mlp");
  const auto captures = [&](const char* mode) {
    Asked asked;
    std::unique_ptr<KernelLibrary> library;
    if (is_bare(mode)) {
      library = watched_library(asked, false, mode == std::string(captured_primitives_mode));
    } else {
      library = std::make_unique<CudaLibrary>(std::make_unique<WatchedDevice>(asked), false);
    }
    KernelExecutable executable(program, options(mode), std::move(library));
    executable.set_state(testing::parameters(program, 1));
    const testing::Batch batch = testing::batch(program, 1);
    executable.stage(0, batch.host());
    for (int step = 1; step <= 3; ++step) executable.step(0, 1e-3, step);
    return asked.recorded;
  };
  EXPECT_EQ(captures(primitives_mode), 0);
  EXPECT_GT(captures(captured_primitives_mode), 0);
  EXPECT_GT(captures("graph"), 0);
}

TEST(Branches, AreThePartsOfAStepInModeGraphOnly) {
  const Program program = testing::small_form("mlp");
  const auto parts = [&](std::unique_ptr<KernelLibrary> library, const Asked& asked) {
    KernelExecutable executable(program, options("graph"), std::move(library));
    executable.set_state(testing::parameters(program, 1));
    const testing::Batch batch = testing::batch(program, 1);
    executable.stage(0, batch.host());
    for (int step = 1; step <= 2; ++step) executable.step(0, 1e-3, step);
    return asked.parts;
  };
  for (const bool in_order : {false, true}) {
    Asked asked;
    const std::size_t found =
        parts(std::make_unique<CudaLibrary>(std::make_unique<WatchedDevice>(asked), false, in_order), asked);
    if (in_order) {
      EXPECT_EQ(found, 1U);
    } else {
      EXPECT_GT(found, 5U);
    }
  }
  Asked asked;
  EXPECT_EQ(parts(watched_library(asked, false, true), asked), 1U);
}

TEST(PrimitivesMode, RefusesAFusedOp) {
  const Graph step = training_step(testing::small_form("lenet5"), {});
  const auto bare = make_kernel_library(options(primitives_mode));
  const Graph with_fusions = fused(step);
  int refused = 0;
  for (const Node& node : with_fusions.nodes()) {
    const std::string reason = bare->unsupported(with_fusions, node);
    if (reason.empty()) continue;
    EXPECT_THAT(reason, HasSubstr("fused")) << reason;
    ++refused;
  }
  EXPECT_GT(refused, 3);
}

// The host has engines with a bias for tensor cores only, as cuDNN does on most GPUs.
TEST(PrimitivesMode, AddsABiasByACallOfItsOwnWhereNoEngineDoes) {
  const auto convolution_in = [](PrecisionKind precision) {
    const auto library = make_kernel_library(options(primitives_mode, precision));
    const LoweredGraph lowered = lower(
        training_step(testing::small_form("lenet5"), {precision_of(precision), false, false}), *library, {});
    const auto found = std::ranges::find(lowered.steps, "convolution", &LoweredStep::op);
    return found == lowered.steps.end() ? std::string() : std::string(found->kernel->implementation());
  };
  EXPECT_EQ(convolution_in(PrecisionKind::fp32), "host:product + host:op_tensor");
  EXPECT_EQ(convolution_in(PrecisionKind::tf32), "host:product");
}

TEST(PrimitivesMode, ComputesOnlyTheGradientOfAMaximumItself) {
  for (const char* kind : {"sum", "mean", "max"}) {
    Node node;
    node.op = &find_op("reduce_gradient");
    node.attributes.set("kind", std::string(kind));
    EXPECT_EQ(primitives::is_outside_of_library(node), kind == std::string("max")) << kind;
  }
}

}  // namespace
}  // namespace assay::cuda

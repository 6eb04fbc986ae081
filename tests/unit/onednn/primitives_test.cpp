// Mode primitives: the library, and nothing of ours that it does not name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/onednn/backend.hpp"
#include "backends/onednn/library.hpp"
#include "backends/onednn/primitives/ops.hpp"
#include "harness/engine/lowered_graph.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "workloads/ops/op_workload.hpp"
#include "workloads/workload.hpp"

namespace assay::onednn {
namespace {

using ::testing::HasSubstr;

Program small(const std::string& name) {
  const Workload& workload = find_workload(name);
  return workload.small.batch > 0 ? workload.build_small() : workload.build(2);
}

CompileOptions options(const std::string& mode, Task task = Task::train) {
  CompileOptions options;
  options.mode = mode;
  options.task = task;
  options.threads = 2;
  return options;
}

// Whether a kernel runs one of our own loops.
bool runs_ours(const Kernel& kernel) {
  const std::string_view implementation = kernel.implementation();
  return implementation.empty() || implementation.find("own") != std::string_view::npos;
}

class Primitives : public ::testing::TestWithParam<const char*> {};

TEST_P(Primitives, RunOurLoopsOnlyForTheOpsThatAreNamed) {
  const Program program = small(GetParam());
  PrimitivesLibrary library(2);
  const LoweredGraph lowered = lower(training_step(program, {}), library, {});
  ASSERT_FALSE(lowered.steps.empty());
  for (const LoweredStep& step : lowered.steps) {
    EXPECT_EQ(runs_ours(*step.kernel), primitives::is_outside_of_library(step.op))
        << step.op << " " << step.node << ": " << step.kernel->implementation();
  }
}

INSTANTIATE_TEST_SUITE_P(Workloads, Primitives,
                         ::testing::Values("mlp", "lenet5", "cnn", "cifar10-cnn", "lstm", "resnet56",
                                           "minilm", "nanogpt", "vit-tiny"),
                         [](const auto& workload) {
                           std::string name = workload.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(PrimitivesMode, NamesTheOpsOutsideOfTheLibrary) {
  OnednnBackend backend;
  const auto named = [&](const Program& program, const CompileOptions& asked) {
    backend.compile(program, asked);
    const auto settings = backend.info().settings;
    const auto found = settings.find("outside_of_library");
    return found == settings.end() ? std::string("not said") : found->second;
  };
  EXPECT_EQ(named(small("mlp"), options("primitives")),
            "softmax_cross_entropy, softmax_cross_entropy_gradient");
  EXPECT_EQ(named(small("lstm"), options("primitives", Task::infer)), "embedding");
  EXPECT_EQ(named(find_op_workload("op/relu").program("16"), options("primitives", Task::infer)), "none");
  EXPECT_EQ(named(small("mlp"), options("graph")), "not said");
}

TEST(PrimitivesMode, FusesNothingAndGivesEachTensorItsOwnMemory) {
  const Program program = small("lenet5");
  const Graph step = training_step(program, {});
  PrimitivesLibrary bare(2);
  OnednnLibrary fusing(2);
  EXPECT_EQ(bare.fuse(step).nodes().size(), step.nodes().size());
  EXPECT_LT(fusing.fuse(step).nodes().size(), step.nodes().size());
  OnednnBackend backend;
  const auto arena = [&](const char* mode) {
    return backend.compile(program, options(mode))->memory().at("planned_arena");
  };
  EXPECT_GT(arena("primitives"), 2 * arena("graph"));
}

TEST(PrimitivesMode, RefusesAFusedOp) {
  const Graph step = training_step(small("lenet5"), {});
  OnednnLibrary fusing(2);
  PrimitivesLibrary bare(2);
  const Graph fused = fusing.fuse(step);
  int refused = 0;
  for (const Node& node : fused.nodes()) {
    const std::string reason = bare.unsupported(fused, node);
    if (reason.empty()) continue;
    EXPECT_THAT(reason, HasSubstr("fused")) << reason;
    ++refused;
  }
  EXPECT_GT(refused, 3);
}

}  // namespace
}  // namespace assay::onednn

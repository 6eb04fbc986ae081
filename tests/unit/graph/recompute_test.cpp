#include "harness/graph/passes/recompute.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "harness/core/error.hpp"
#include "harness/graph/memory_plan/summary.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

Program recomputing(const std::string& workload, std::int64_t batch, std::string_view policy) {
  Program program = find_workload(workload).build(batch);
  program.segments = recompute_segments(program.training.value(), policy);
  return program;
}

std::set<std::string> computed_again(const Graph& step) {
  std::set<std::string> ops;
  for (const Node& node : step.nodes())
    if (node.name.ends_with(".again")) ops.insert(std::string(node.op->name()));
  return ops;
}

TEST(Recompute, segments_of_mirroring_end_with_a_product) {
  for (const Workload& workload : all_workloads()) {
    const Graph forward = workload.build(4).training.value();
    for (const Segment& segment : recompute_segments(forward, "mirror")) {
      EXPECT_GT(segment.end - segment.begin, 1) << workload.name;
      for (std::int64_t i = segment.begin; i + 1 < segment.end; ++i) {
        const std::string_view op = forward.nodes()[index(i)].op->name();
        EXPECT_NE(op, "convolution");
        EXPECT_NE(op, "linear");
        EXPECT_NE(op, "attention");
        EXPECT_NE(op, "lstm");
      }
    }
  }
}

TEST(Recompute, square_root_segments_are_about_as_many_as_the_root_of_the_nodes) {
  const Graph forward = find_workload("resnet56").build(4).training.value();
  const std::vector<Segment> segments = recompute_segments(forward, "sqrt");
  const double root = std::sqrt(static_cast<double>(forward.nodes().size()));
  EXPECT_GT(static_cast<double>(segments.size()), 0.5 * root);
  EXPECT_LT(static_cast<double>(segments.size()), 2 * root);
  EXPECT_EQ(segments.front().begin, 0);
  for (std::size_t i = 1; i < segments.size(); ++i) EXPECT_EQ(segments[i].begin, segments[i - 1].end);
  EXPECT_LT(segments.back().end, static_cast<std::int64_t>(forward.nodes().size()));
}

TEST(Recompute, without_segments_a_step_is_unchanged) {
  const Program plain = find_workload("resnet56").build(2);
  EXPECT_EQ(to_json(training_step(recomputing("resnet56", 2, "none"), {})),
            to_json(training_step(plain, {})));
}

TEST(Recompute, refuses_an_unknown_policy) {
  EXPECT_THROW(recompute_segments(find_workload("mlp").build(2).training.value(), "half"),
               std::invalid_argument);
}

TEST(Recompute, mirroring_computes_only_cheap_ops_again) {
  EXPECT_EQ(computed_again(training_step(recomputing("resnet56", 2, "mirror"), {})),
            (std::set<std::string>{"add", "average_pool", "batch_norm", "flatten", "relu"}));
  EXPECT_TRUE(computed_again(training_step(recomputing("resnet56", 2, "sqrt"), {})).contains("convolution"));
}

TEST(Recompute, running_statistics_and_masks_are_updated_once) {
  for (const char* name : {"resnet56", "cifar10-cnn"}) {
    const Graph plain = training_step(find_workload(name).build(2), {});
    const Graph step = training_step(recomputing(name, 2, "sqrt"), {});
    ASSERT_EQ(step.updates().size(), plain.updates().size());
    for (std::size_t i = 0; i < plain.updates().size(); ++i) {
      EXPECT_EQ(step.value(step.updates()[i].source).name, plain.value(plain.updates()[i].source).name);
    }
    EXPECT_FALSE(computed_again(step).contains("dropout_mask"));
  }
}

// What is not kept is not read by the backward pass of the same step.
TEST(Recompute, a_step_needs_less_memory_and_more_work) {
  for (const char* name : {"resnet56", "vit-tiny", "googlenet_bn"}) {
    const Graph plain = training_step(find_workload(name).build(4), {});
    const ArenaSummary kept = plan_sizes(plain);
    for (const char* policy : {"mirror", "sqrt"}) {
      const Graph step = training_step(recomputing(name, 4, policy), {});
      EXPECT_LT(plan_sizes(step).co_share, kept.co_share) << name << ' ' << policy;
      double work = 0, work_of_plain = 0;
      for (const Node& node : step.nodes()) work += cost(step, node).flops;
      for (const Node& node : plain.nodes()) work_of_plain += cost(plain, node).flops;
      EXPECT_GT(work, work_of_plain) << name << ' ' << policy;
      EXPECT_LT(work, 1.4 * work_of_plain) << name << ' ' << policy;  // at most one more forward pass
    }
  }
}

TEST(Recompute, segments_are_in_graph_json) {
  const Program program = recomputing("lenet5", 2, "sqrt");
  ASSERT_FALSE(program.segments.empty());
  EXPECT_EQ(program_from_json(to_json(program)).segments, program.segments);
  for (const char* wrong : {R"([[0, 0]])", R"([[0, 3], [2, 5]])", R"([[0, 1000]])", R"([[-1, 2]])",
                            R"([[0, 1, 2]])", R"([3])", R"({})"}) {
    nlohmann::json changed = to_json(program);
    changed["segments"] = nlohmann::json::parse(wrong);
    EXPECT_THROW(program_from_json(changed), GraphError) << wrong;
  }
}

}  // namespace
}  // namespace assay

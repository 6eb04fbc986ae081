#include "harness/graph/passes/all_reduce.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "harness/core/error.hpp"
#include "harness/graph/memory_plan/placement.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/fuse.hpp"
#include "harness/graph/passes/recompute.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr BucketLimits small{.first = 64, .next = std::int64_t{200} << 10};

bool exchanges(const Node& node) {
  return node.op->name() == "all_reduce_start" || node.op->name() == "all_reduce_wait";
}

std::vector<const Node*> nodes_of(const Graph& graph, std::string_view op) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes())
    if (node.op->name() == op) found.push_back(&node);
  return found;
}

std::vector<std::string> names(const Graph& graph, std::span<const ValueId> values) {
  std::vector<std::string> all;
  for (const ValueId value : values) all.push_back(graph.value(value).name);
  return all;
}

// The values that updates of parameters read as their gradients.
std::map<std::string, ValueId> gradients_of(const Graph& step) {
  std::map<std::string, ValueId> gradients;
  for (const Update& update : step.updates()) {
    const Value& target = step.value(update.target);
    if (target.role == Role::parameter)
      gradients[target.name] = step.node(step.value(update.source).producer).inputs[2];
  }
  return gradients;
}

class Ranks : public ::testing::Test {
 protected:
  Graph step(const Program& program, PrecisionKind precision = PrecisionKind::fp32) const {
    return training_step(program, {.precision = precision_of(precision), .mean_over_ranks = small});
  }
  Program lenet_ = find_workload("lenet5").build(4);
};

TEST_F(Ranks, AreNotThereByDefault) {
  for (const Node& node : training_step(lenet_, {}).nodes()) EXPECT_FALSE(exchanges(node)) << node.name;
}

TEST_F(Ranks, GiveEachOptimizerTheMeanOfItsGradient) {
  for (const PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16}) {
    const Graph alone = training_step(lenet_, {.precision = precision_of(precision)});
    const Graph graph = step(lenet_, precision);
    const std::map<std::string, ValueId> expected = gradients_of(alone), found = gradients_of(graph);
    ASSERT_EQ(found.size(), expected.size());
    std::set<ValueId> means;
    for (const auto& [parameter, mean] : found) {
      const Node& wait = graph.node(graph.value(mean).producer);
      ASSERT_EQ(wait.op->name(), "all_reduce_wait") << parameter;
      const auto place = std::ranges::find(wait.outputs, mean) - wait.outputs.begin();
      const ValueId gradient = wait.inputs[index(1 + place)];
      EXPECT_EQ(graph.value(gradient).name, alone.value(expected.at(parameter)).name);
      EXPECT_EQ(graph.value(gradient).type.dtype, DType::f32);
      EXPECT_EQ(graph.value(mean).type, graph.value(gradient).type);
      const Node& start = graph.node(graph.value(wait.inputs[0]).producer);
      EXPECT_EQ(start.op->name(), "all_reduce_start");
      EXPECT_THAT(start.inputs, ElementsAreArray(std::span(wait.inputs).subspan(1)));
      EXPECT_TRUE(means.insert(mean).second) << parameter << " has the mean of another parameter";
    }
  }
}

TEST_F(Ranks, ClipMeansByTheNormOfMeans) {
  lenet_.optimizer->clip_norm = 1;
  const Graph graph = step(lenet_);
  const auto is_mean = [&](ValueId value) {
    return graph.node(graph.value(value).producer).op->name() == "all_reduce_wait";
  };
  const Node& norm = *nodes_of(graph, "global_norm").at(0);
  EXPECT_EQ(norm.inputs.size(), 10U);
  EXPECT_TRUE(std::ranges::all_of(norm.inputs, is_mean));
  for (const Node* clip : nodes_of(graph, "clip")) EXPECT_TRUE(is_mean(clip->inputs[0])) << clip->name;
}

TEST_F(Ranks, FillBucketsInTheOrderOfTheBackwardPass) {
  const Graph graph = step(lenet_);
  std::vector<std::vector<std::string>> found;
  for (const Node* start : nodes_of(graph, "all_reduce_start")) found.push_back(names(graph, start->inputs));
  NodeId last = none;
  for (const auto& bucket : found) {
    for (const std::string& name : bucket) {
      EXPECT_GE(graph.value(graph.find(name)).producer, last) << name;
      last = std::max(last, graph.value(graph.find(name)).producer);
    }
  }
  ASSERT_GE(found.size(), 3U);
  for (std::size_t b = 0; b + 1 < found.size(); ++b) {
    std::int64_t bytes = 0, before = 0;
    for (const std::string& name : found[b]) {
      before = bytes;
      bytes += graph.value(graph.find(name)).type.bytes();
    }
    EXPECT_GE(bytes, b == 0 ? small.first : small.next) << b;
    EXPECT_LT(before, b == 0 ? small.first : small.next) << b << " was full before its last gradient";
  }
  EXPECT_EQ(to_json(step(lenet_)), to_json(step(lenet_))) << "the same on every rank";
}

TEST_F(Ranks, DividesNothingIfTheLimitsAreLarge) {
  const Graph graph = training_step(lenet_, {.mean_over_ranks = BucketLimits{1 << 30, 1 << 30}});
  EXPECT_EQ(nodes_of(graph, "all_reduce_start").size(), 1U);
  EXPECT_EQ(nodes_of(graph, "all_reduce_start")[0]->inputs.size(), 10U);
}

TEST_F(Ranks, StartEachBucketWithItsLastGradientAndWaitBeforeTheFirstReader) {
  for (const char* workload : {"lenet5", "resnet56", "lstm", "vit-tiny"}) {
    for (const char* policy : {"none", "sqrt"}) {
      Program program = find_workload(workload).build(4);
      program.segments = recompute_segments(program.training.value(), policy);
      const Graph graph = step(program, PrecisionKind::bf16);
      const auto readers = [&](ValueId value) {
        std::vector<NodeId> all;
        for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id)
          if (std::ranges::count(graph.node(id).inputs, value) > 0) all.push_back(id);
        return all;
      };
      std::size_t overlapped = 0;
      for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
        const Node& node = graph.node(id);
        if (node.op->name() == "all_reduce_start") {
          NodeId last = none;
          for (const ValueId input : node.inputs) last = std::max(last, graph.value(input).producer);
          for (NodeId between = last + 1; between < id; ++between)
            EXPECT_EQ(graph.node(between).op->name(), "all_reduce_start") << node.name;
          const NodeId wait = readers(node.outputs[0]).at(0);
          overlapped +=
              std::ranges::any_of(graph.nodes().subspan(index(id), index(wait - id)),
                                  [](const Node& n) { return !exchanges(n) && n.op->repeats() == 0; });
        }
        if (node.op->name() == "all_reduce_wait") {
          NodeId first = static_cast<NodeId>(graph.nodes().size());
          for (const ValueId mean : node.outputs) first = std::min(first, readers(mean).at(0));
          for (NodeId between = id + 1; between < first; ++between)
            EXPECT_EQ(graph.node(between).op->name(), "all_reduce_wait") << node.name;
        }
      }
      EXPECT_GE(overlapped, 1U) << workload << ": nothing is computed between a start and its wait";
    }
  }
}

TEST_F(Ranks, LeaveAllOtherNodesInTheirOrder) {
  const Graph alone = training_step(lenet_, {}), graph = step(lenet_);
  std::vector<std::string> expected, found;
  for (const Node& node : alone.nodes()) expected.push_back(node.name);
  for (const Node& node : graph.nodes())
    if (!exchanges(node)) found.push_back(node.name);
  EXPECT_EQ(found, expected);
}

TEST_F(Ranks, KeepABucketAndItsGradientsUntilTheWait) {
  const Graph graph = fuse(step(lenet_), {.grouped_updates = true});
  const std::vector<Lifetime> alive = liveness(graph);
  int pairs = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& wait = graph.node(id);
    if (wait.op->name() != "all_reduce_wait") continue;
    ++pairs;
    EXPECT_GE(alive[index(wait.inputs[0])].last, id);
    EXPECT_LT(alive[index(wait.inputs[0])].first, id);
    for (const ValueId gradient : std::span(wait.inputs).subspan(1))
      EXPECT_GE(alive[index(gradient)].last, id) << graph.value(gradient).name;
  }
  EXPECT_GE(pairs, 3);
  EXPECT_EQ(graph.nodes().back().op->name(), "adam") << "the optimizer comes after all waits";
}

TEST_F(Ranks, ExchangeAGradientOfTwoParametersOnce) {
  Graph graph("twice");
  GraphBuilder builder(graph);
  const ValueId x = builder.input("x", {3});
  const ValueId y = builder.relu(x);
  const std::vector<ValueId> means = add_all_reduce(graph, {y, y}, small);
  EXPECT_THAT(names(graph, means), ElementsAre("bucket1.mean", "bucket1.mean"));
  EXPECT_EQ(nodes_of(graph, "all_reduce_start")[0]->inputs.size(), 1U);
}

TEST_F(Ranks, RejectRowSparseGradients) {
  const Workload& workload = find_workload("lstm");
  NetworkForm form = workload.form(2);
  form.sample = {6};
  form.sparse_embedding_gradients = true;
  EXPECT_THROW(step(workload.build(form)), GraphError);
}

}  // namespace
}  // namespace assay

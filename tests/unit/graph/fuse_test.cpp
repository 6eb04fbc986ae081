#include "harness/graph/fuse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/graph/op.hpp"
#include "harness/graph/training_step.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

using testing::ElementsAre;

FusionRules all_rules() {
  return {.activation = {"convolution", "linear", "batch_norm", "add"},
          .mask = {"convolution_input_gradient", "linear_input_gradient", "average_pool_gradient",
                   "max_pool_gradient"},
          .grouped_optimizer = true};
}

std::vector<std::string> ops(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    names.emplace_back(node.op->name());
    if (node.attributes.has("activation")) names.back() += "+relu";
    const std::vector<Operand> operands = node.op->operands();
    if (operands.size() > 1 && operands.back().name == "mask" && node.inputs.back() != none)
      names.back() += "+mask";
  }
  return names;
}

TEST(Fuse, leaves_no_relu_of_its_own_in_a_training_step_of_lenet5) {
  const Graph graph = fuse(training_step(find_workload("lenet5").build(4), {}), all_rules());
  EXPECT_THAT(
      ops(graph),
      ElementsAre("convolution+relu", "average_pool", "convolution+relu", "average_pool", "flatten",
                  "linear+relu", "linear+relu", "linear", "softmax_cross_entropy",
                  "softmax_cross_entropy_gradient", "linear_input_gradient+mask", "linear_weight_gradient",
                  "linear_input_gradient+mask", "linear_weight_gradient", "linear_input_gradient",
                  "linear_weight_gradient", "reshape", "average_pool_gradient+mask",
                  "convolution_input_gradient", "convolution_weight_gradient", "average_pool_gradient+mask",
                  "convolution_weight_gradient", "adam"));
}

TEST(Fuse, a_mask_reaches_across_the_flatten_of_cnn) {
  for (const char* precision : {"fp32", "bf16"}) {
    const Graph graph = fuse(
        training_step(find_workload("cnn").build(4), {.precision = parse_precision(precision)}), all_rules());
    const Node& gradient = graph.node(graph.find_node("fc.input_gradient"));
    EXPECT_EQ(graph.value(gradient.inputs[2]).name, "flatten") << precision;
    EXPECT_THAT(ops(graph), testing::Not(testing::Contains("relu_gradient"))) << precision;
  }
}

TEST(Fuse, keeps_outputs_updates_and_persistent_values) {
  const Graph before = training_step(find_workload("lenet5").build(4),
                                     {.gradients_as_outputs = true, .logits_as_output = true});
  const Graph after = fuse(before, all_rules());
  ASSERT_EQ(after.outputs().size(), before.outputs().size());
  for (const Graph::Output& output : before.outputs()) {
    EXPECT_EQ(after.value(after.output(output.name)).type, before.value(output.value).type) << output.name;
  }
  ASSERT_EQ(after.updates().size(), before.updates().size());
  for (std::size_t i = 0; i < before.updates().size(); ++i) {
    EXPECT_EQ(after.value(after.updates()[i].target).name, before.value(before.updates()[i].target).name);
  }
}

TEST(Fuse, each_group_of_the_optimizer_updates_its_own_tensor) {
  const Graph graph = fuse(training_step(find_workload("mlp").build(4), {}), {.grouped_optimizer = true});
  const Node& adam = graph.nodes().back();
  ASSERT_EQ(adam.op->name(), "adam");
  ASSERT_EQ(adam.inputs.size(), 1u + 4u * 4u);
  ASSERT_EQ(adam.outputs.size(), 3u * 4u);
  for (const InPlace& pair : in_place(adam)) {
    const ValueId target = adam.inputs[static_cast<std::size_t>(pair.input)];
    const ValueId source = adam.outputs[static_cast<std::size_t>(pair.output)];
    const bool found = std::ranges::any_of(graph.updates(), [&](const Update& update) {
      return update.target == target && update.source == source;
    });
    EXPECT_TRUE(found) << graph.value(target).name;
  }
  EXPECT_EQ(in_place(adam).size(), graph.updates().size());
}

TEST(Fuse, does_only_what_the_backend_has) {
  const Graph before = training_step(find_workload("lenet5").build(4), {});
  EXPECT_EQ(ops(fuse(before, {})), ops(before));
  const Graph one = fuse(before, {.activation = {"linear"}});
  EXPECT_THAT(ops(one), testing::Contains("linear+relu").Times(2));
  EXPECT_THAT(ops(one), testing::Contains("relu").Times(2));
}

TEST(Fuse, leaves_a_value_alone_that_somebody_else_reads) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.linear("fc", b.input("inputs", {4, 8}), 8);
  graph.add_output("sum", b.add(b.relu(x), x));
  EXPECT_THAT(ops(fuse(graph, all_rules())), ElementsAre("linear", "relu", "add"));

  Graph shown("g");
  GraphBuilder c(shown);
  const ValueId y = c.linear("fc", c.input("inputs", {4, 8}), 8);
  shown.add_output("before", y);
  shown.add_output("after", c.relu(y));
  EXPECT_THAT(ops(fuse(shown, all_rules())), ElementsAre("linear", "relu"));
}

TEST(Fuse, an_update_is_not_grouped_when_its_result_is_read) {
  Graph graph = training_step(find_workload("mlp").build(4), {});
  GraphBuilder b(graph);
  graph.add_output("y", b.relu(graph.find("fc1.weight.update")));
  const Graph fused = fuse(graph, all_rules());
  EXPECT_NE(fused.find_node("fc1.weight.update"), none);
  EXPECT_EQ(fused.nodes().back().inputs.size(), 1u + 4u * 3u);
}

TEST(Fuse, residual_additions_take_the_activation) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x =
      b.relu(b.batch_norm("bn1", b.convolution("conv1", b.input("inputs", {2, 3, 8, 8}), 4, {.kernel = 1})));
  const ValueId y = b.batch_norm("bn2", b.convolution("conv2", x, 4, {.kernel = 1}));
  graph.add_output("y", b.relu(b.add(y, x)));
  EXPECT_THAT(ops(fuse(graph, all_rules())),
              ElementsAre("convolution", "batch_norm+relu", "convolution", "batch_norm", "add+relu"));
}

}  // namespace
}  // namespace assay

#include "harness/graph/passes/fuse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/autodiff.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

using testing::ElementsAre;

FusionRules all_rules() {
  return {.activation = {"convolution", "linear", "batch_norm", "add"},
          .mask = {"convolution_input_gradient", "linear_input_gradient", "average_pool_gradient",
                   "max_pool_gradient"},
          .norm_residual = true,
          .norm_gradient = true,
          .grouped_updates = true};
}

std::vector<std::string> ops(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    names.emplace_back(node.op->name());
    if (node.attributes.has("activation")) names.back() += "+relu";
    const std::vector<Operand> operands = node.op->operands();
    const auto mask = std::ranges::find(operands, "mask", &Operand::name);
    if (mask == operands.end()) continue;
    if (node.inputs[static_cast<std::size_t>(mask - operands.begin())] != none) names.back() += "+mask";
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

TEST(Fuse, AGeluThatAloneReadsALinearBecomesItsActivation) {
  for (const bool read_twice : {false, true}) {
    Graph graph("g");
    GraphBuilder b(graph);
    const ValueId h = b.linear("fc", b.input("inputs", {2, 3, 8}), 4);
    graph.add_output("y", b.gelu(h, "gelu", "tanh"));
    if (read_twice) graph.add_output("h", h);
    FusionRules rules;
    EXPECT_EQ(fuse(graph, rules).nodes().size(), 2U);
    rules.gelu = {"linear"};
    const Graph fused = fuse(graph, rules);
    ASSERT_EQ(fused.nodes().size(), read_twice ? 2U : 1U);
    if (!read_twice) {
      EXPECT_EQ(fused.nodes()[0].attributes.get<std::string>("activation"), "gelu_tanh");
      EXPECT_TRUE(is_fused(fused.nodes()[0]));
    }
  }
}

TEST(Fuse, ASumThatAloneReadsALinearBecomesItsResidual) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.input("inputs", {2, 3, 8});
  const ValueId sum = b.add(x, b.linear("fc1", x, 8));
  const ValueId late = b.linear("fc2", sum, 8);  // fc3 comes after it
  graph.add_output("y", b.add(b.add(late, b.linear("fc3", sum, 8)), b.parameter("row", {8}, "ones")));
  FusionRules rules;
  rules.linear_residual = true;
  const Graph fused = fuse(graph, rules);
  EXPECT_THAT(ops(fused), ElementsAre("linear", "linear", "linear", "add"));
  for (const auto& [name, residual] : {std::pair{"fc1", "inputs"}, std::pair{"fc3", "fc2"}}) {
    const Node& linear = fused.node(fused.find_node(name));
    ASSERT_EQ(linear.inputs.size(), 4U);
    EXPECT_EQ(fused.value(linear.inputs[3]).name, residual);
    EXPECT_TRUE(is_fused(linear));
  }
}

// Queries, keys and values are products of one x, whose gradient is the sum of three.
TEST(Fuse, SumsOfInputGradientsBecomeAddends) {
  Graph graph("g");
  GraphBuilder b(graph, true);
  const ValueId x = b.input("inputs", {2, 3, 8}), dy = b.input("dy", {2, 3, 8});
  const ValueId y = b.add(b.add(b.linear("q", x, 8), b.linear("k", x, 8)), b.linear("v", x, 8));
  graph.add_output("dx", differentiate(graph, {{y, dy}}, {x})[0]);
  FusionRules rules;
  rules.linear_addend = true;
  const auto adds = [](const Graph& of) {
    return std::ranges::count_if(of.nodes(), [](const Node& node) { return node.op->name() == "add"; });
  };
  EXPECT_EQ(adds(fuse(graph, {})), 4);
  const Graph fused = fuse(graph, rules);
  EXPECT_EQ(adds(fused), 2) << "those of y";
  ValueId dx = fused.output("dx");
  for (int addends = 2; addends >= 0; --addends) {
    const Node& gradient = fused.node(fused.value(dx).producer);
    EXPECT_EQ(gradient.op->name(), "linear_input_gradient");
    EXPECT_EQ(is_fused(gradient), addends > 0);
    if (addends == 0) break;
    ASSERT_EQ(gradient.inputs.size(), 4U);
    dx = gradient.inputs[3];
  }
}

// x + linear(norm(x)), differentiated: x gets the sum of what the connection and the norm pass back.
Graph norm_in_a_residual(bool centered) {
  Graph graph("g");
  GraphBuilder b(graph, true);
  const ValueId x = b.input("inputs", {2, 3, 8}), dy = b.input("dy", {2, 3, 8});
  const ValueId scale = b.parameter("scale", {8}, "ones"), shift = b.parameter("shift", {8}, "zeros");
  const Attributes epsilon{{"epsilon", 1e-5}};
  const ValueId normed = centered ? b.apply("layer_norm", {x, scale, shift}, epsilon, "norm")[0]
                                  : b.apply("rms_norm", {x, scale}, epsilon, "norm")[0];
  const ValueId y = b.add(x, b.linear("fc", normed, 8));
  graph.add_output("dx", differentiate(graph, {{y, dy}}, {x})[0]);
  return graph;
}

TEST(Fuse, AddsTheGradientThatPassesByANormToItsOwn) {
  const auto sums = [](const Graph& graph) {
    return std::ranges::count_if(graph.nodes(), [](const Node& node) { return node.op->name() == "add"; });
  };
  FusionRules rules;
  rules.row_norm_gradient = true;
  for (const bool centered : {false, true}) {
    Graph graph = norm_in_a_residual(centered);
    EXPECT_EQ(sums(fuse(graph, {})), 2);
    const Graph fused = fuse(graph, rules);
    EXPECT_EQ(sums(fused), 1);
    const NodeId id = fused.value(fused.output("dx")).producer;
    ASSERT_NE(id, none);
    const Node& gradient = fused.node(id);
    EXPECT_EQ(gradient.op->name(), centered ? "layer_norm_gradient" : "rms_norm_gradient");
    ASSERT_EQ(gradient.inputs.size(), centered ? 6U : 5U);
    EXPECT_EQ(fused.value(gradient.inputs.back()).name, "dy");
    EXPECT_TRUE(is_fused(gradient));
    const auto alone = std::ranges::find(graph.nodes(), gradient.op, &Node::op);
    ASSERT_NE(alone, graph.nodes().end());
    EXPECT_FALSE(is_fused(*alone));
    graph.add_output("of_the_norm", alone->outputs[0]);  // then it is needed without the sum
    EXPECT_EQ(sums(fuse(graph, rules)), 2);
  }
}

TEST(Fuse, RowsOfATableAreCastAfterTheyAreLookedUp) {
  const Program program = find_workload("lstm").build(2);
  const Graph step = inference_step(program, precision_of(PrecisionKind::bf16));
  FusionRules rules;
  rules.cast_after_embedding = true;
  const Graph fused = fuse(step, rules);
  EXPECT_EQ(fused.nodes().size(), step.nodes().size());
  int lookups = 0;
  for (const Node& node : fused.nodes()) {
    if (node.op->name() != "embedding") continue;
    ++lookups;
    EXPECT_EQ(fused.value(node.inputs[1]).role, Role::parameter);
    EXPECT_EQ(fused.value(node.outputs[0]).type.dtype, DType::f32);
  }
  EXPECT_EQ(lookups, 1);
  EXPECT_EQ(fused.value(fused.output("logits")).type, step.value(step.output("logits")).type);
}

TEST(Fuse, a_mask_reaches_across_the_flatten_of_cnn) {
  for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16}) {
    const Graph graph = fuse(
        training_step(find_workload("cnn").build(4), {.precision = precision_of(precision)}), all_rules());
    const Node& gradient = graph.node(graph.find_node("fc.input_gradient"));
    EXPECT_EQ(graph.value(gradient.inputs[2]).name, "flatten") << to_string(precision);
    EXPECT_THAT(ops(graph), testing::Not(testing::Contains("relu_gradient"))) << to_string(precision);
  }
}

TEST(Fuse, keeps_outputs_updates_and_persistent_values) {
  const Graph before = training_step(find_workload("lenet5").build(4),
                                     {.gradients_as_outputs = true, .network_outputs = true});
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
  const Graph graph = fuse(training_step(find_workload("mlp").build(4), {}), {.grouped_updates = true});
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

TEST(Fuse, uses_only_ops_that_the_backend_has) {
  const Graph before = training_step(find_workload("lenet5").build(4), {});
  EXPECT_EQ(ops(fuse(before, {})), ops(before));
  const Graph one = fuse(before, {.activation = {"linear"}});
  EXPECT_THAT(ops(one), testing::Contains("linear+relu").Times(2));
  EXPECT_THAT(ops(one), testing::Contains("relu").Times(2));
}

TEST(Fuse, does_not_fuse_a_value_with_another_reader) {
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

TEST(Fuse, GivesAPoolsGradientWhatThePoolReadAndWrote) {
  const Graph before = training_step(find_workload("cifar10-cnn").build(2), {});
  const Graph after = fuse(before, {.pool_operands = true});
  EXPECT_EQ(ops(after), ops(before));
  int pools = 0;
  for (const Node& node : after.nodes()) {
    EXPECT_FALSE(is_fused(node)) << node.name;
    if (node.op->name() != "max_pool_gradient") continue;
    const Node& pool = after.node(after.value(node.inputs[1]).producer);
    EXPECT_EQ(node.inputs[3], pool.inputs[0]);
    EXPECT_EQ(node.inputs[4], pool.outputs[0]);
    ++pools;
  }
  EXPECT_GT(pools, 1);
}

TEST(Fuse, KnowsWhatItWrote) {
  const Graph before = training_step(find_workload("resnet56").build(2), {});
  const auto count = [](const Graph& graph) { return std::ranges::count_if(graph.nodes(), is_fused); };
  EXPECT_EQ(count(before), 0);
  EXPECT_EQ(count(fuse(before, {.grouped_updates = true, .pool_operands = true})), 0);
  EXPECT_GT(count(fuse(before, {.activation = {"batch_norm"}})), 0);
  EXPECT_GT(count(fuse(before, {.norm_gradient = true})), 0);
}

TEST(Fuse, an_update_is_not_grouped_when_its_result_is_read) {
  Graph graph = training_step(find_workload("mlp").build(4), {});
  GraphBuilder b(graph);
  graph.add_output("y", b.relu(graph.find("fc1.weight.update")));
  const Graph fused = fuse(graph, all_rules());
  EXPECT_NE(fused.find_node("fc1.weight.update"), none);
  EXPECT_EQ(fused.nodes().back().inputs.size(), 1u + 4u * 3u);
}

TEST(Fuse, batch_norms_take_residual_and_activation) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x =
      b.relu(b.batch_norm("bn1", b.convolution("conv1", b.input("inputs", {2, 3, 8, 8}), 4, {.kernel = 1})));
  const ValueId y = b.batch_norm("bn2", b.convolution("conv2", x, 4, {.kernel = 1}));
  graph.add_output("y", b.relu(b.add(y, x)));
  EXPECT_THAT(ops(fuse(graph, all_rules())),
              ElementsAre("convolution", "batch_norm+relu", "convolution", "batch_norm+relu"));
  FusionRules without = all_rules();
  without.norm_residual = false;
  EXPECT_THAT(ops(fuse(graph, without)),
              ElementsAre("convolution", "batch_norm+relu", "convolution", "batch_norm", "add+relu"));
}

TEST(Fuse, a_residual_that_is_computed_later_stays_an_addition) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.input("inputs", {2, 4, 8, 8});
  const ValueId y = b.batch_norm("bn", b.convolution("conv1", x, 4, {.kernel = 1}));
  graph.add_output("y", b.add(y, b.convolution("conv2", x, 4, {.kernel = 1})));
  EXPECT_THAT(ops(fuse(graph, all_rules())), ElementsAre("convolution", "batch_norm", "convolution", "add"));
}

TEST(Fuse, AVectorForEachPositionIsNoResidual) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId y =
      b.batch_norm("bn", b.convolution("conv", b.input("inputs", {2, 3, 8, 8}), 4, {.kernel = 1}));
  graph.add_output("y", b.relu(b.add(y, b.parameter("positions", {8, 8}, "ones"))));
  EXPECT_THAT(ops(fuse(graph, all_rules())), ElementsAre("convolution", "batch_norm", "add+relu"));
}

TEST(Fuse, leaves_only_matrix_ops_and_batch_norms_of_a_resnet) {
  for (const char* workload : {"resnet56", "resnet50"}) {
    const Graph graph = fuse(training_step(find_workload(workload).build(2), {}), all_rules());
    int bias_gradients = 0;
    for (const Node& node : graph.nodes()) {
      const std::string_view op = node.op->name();
      const bool of_pool = node.name == "pool1.gradient_sum";  // a max pool's gradient adds nothing
      EXPECT_TRUE(op != "relu" && op != "relu_gradient" && (op != "add" || of_pool))
          << workload << ' ' << node.name;
      if (op == "convolution_weight_gradient") bias_gradients += node.outputs[1] != none;
    }
    // The two projections of resnet56 have no batch norm; the convolutions of resnet50 have no bias.
    EXPECT_EQ(bias_gradients, workload == std::string("resnet56") ? 2 : 0);
  }
}

TEST(Fuse, keeps_values_with_other_readers_in_batch_norm_gradients) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId images = b.input("inputs", {2, 3, 8, 8});
  const ValueId x = b.relu(b.batch_norm("bn1", b.convolution("conv1", images, 4, {.kernel = 1})), "relu1");
  const ValueId y = b.relu(b.batch_norm("bn2", b.convolution("conv2", x, 4, {.kernel = 1})), "relu2");
  const ValueId z = b.relu(b.add(x, y), "relu3");
  const ValueId logits = b.linear("fc", b.flatten(z), 10);
  Program program{graph, Graph("g"), OptimizerSpec{}};
  program.training->add_output("logits", logits);
  GraphBuilder c(program.training.value());
  program.training->add_output("loss", c.softmax_cross_entropy(logits, c.label("labels", {2})));
  const Graph fused = fuse(training_step(program, {}), all_rules());
  const Node& first = fused.node(fused.find_node("bn1.gradient"));
  const Node& second = fused.node(fused.find_node("bn2.gradient"));
  EXPECT_EQ(fused.value(second.inputs[5]).name, "bn2.bias");  // its own ReLU, from x
  EXPECT_EQ(second.outputs[3], none);
  EXPECT_NE(first.inputs[7], none);  // two gradients meet in front of it
  EXPECT_EQ(fused.node(fused.find_node("conv1.weight_gradient")).outputs[1], none);
}

// The gradient that the optimizer reads for this parameter.
const Node& gradient_of(const Graph& graph, const std::string& parameter) {
  const Node& update = graph.node(graph.value(graph.find(parameter + ".update")).producer);
  return graph.node(graph.value(update.inputs[2]).producer);
}

TEST(Fuse, TheBiasBeforeABatchNormHasAGradientOfZero) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId images = b.input("inputs", {2, 3, 8, 8});
  ValueId x = b.batch_norm("bn1", b.convolution("conv1", images, 4, {.kernel = 1}));
  x = b.batch_norm("bn2", b.convolution("conv2", x, 4, {.kernel = 1}));
  const ValueId logits = b.linear("fc", b.flatten(b.convolution("conv3", x, 4, {.kernel = 1})), 10);
  Program program{graph, Graph("g"), OptimizerSpec{}};
  program.training->add_output("logits", logits);
  GraphBuilder c(program.training.value());
  program.training->add_output("loss", c.softmax_cross_entropy(logits, c.label("labels", {2})));
  const Graph fused = fuse(training_step(program, {}), {.norm_gradient = true});
  const Node& first = gradient_of(fused, "conv1.bias");
  EXPECT_EQ(first.op->name(), "constant");
  EXPECT_EQ(first.attributes.number("value"), 0);
  EXPECT_EQ(&gradient_of(fused, "conv2.bias"), &first) << "one for both, which are of one type";
  EXPECT_EQ(gradient_of(fused, "conv3.bias").op->name(), "convolution_weight_gradient");
}

TEST(Fuse, ABatchNormSavesTheMaskOfItsGradientAndUpdatesItsStatisticsElsewhere) {
  FusionRules rules = all_rules();
  rules.norm_mask = rules.norm_statistics = true;
  const Graph graph = fuse(training_step(find_workload("resnet56").build(2), {}), rules);
  int norms = 0, gradients = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op->name() == "batch_norm") {
      ++norms;
      EXPECT_EQ(node.outputs[3], none) << node.name;
      EXPECT_EQ(node.outputs[5] != none, node.attributes.has("activation")) << node.name;
    }
    if (node.op->name() != "batch_norm_gradient") continue;
    ++gradients;
    EXPECT_EQ(node.inputs[5], none) << node.name;
    EXPECT_EQ(node.inputs[6], none) << node.name;
    ASSERT_NE(node.inputs[8], none) << node.name;
    const Node& norm = graph.node(graph.value(node.inputs[8]).producer);
    EXPECT_EQ(norm.inputs[0], node.inputs[0]) << node.name;
  }
  EXPECT_EQ(norms, 55);
  EXPECT_EQ(gradients, 55);
  const auto updates = std::ranges::find(graph.nodes(), "running_statistics",
                                         [](const Node& node) { return node.op->name(); });
  ASSERT_NE(updates, graph.nodes().end());
  EXPECT_EQ(updates->inputs.size(), 4u * 55u) << "one node for all";
}

}  // namespace
}  // namespace assay

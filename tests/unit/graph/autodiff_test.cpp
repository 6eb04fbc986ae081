#include "harness/graph/passes/autodiff.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

using testing::HasSubstr;

std::size_t count(const Graph& graph, std::string_view op) {
  std::size_t n = 0;
  for (const Node& node : graph.nodes()) n += node.op->name() == op ? 1 : 0;
  return n;
}

const Node& producer(const Graph& graph, ValueId id) { return graph.node(graph.value(id).producer); }

TEST(Autodiff, a_gradient_has_the_type_of_its_parameter) {
  Graph graph("g");
  GraphBuilder b(graph);
  ValueId x = b.input("inputs", {2, 3, 8, 8});
  x = b.max_pool(b.relu(b.batch_norm("bn", b.convolution("conv", x, 4, {.kernel = 3, .padding = 1}))),
                 {.kernel = 2, .stride = 2});
  const ValueId loss = b.softmax_cross_entropy(b.linear("fc", b.flatten(x), 5), b.label("labels", {2}));
  const std::vector<ValueId> parameters = graph.with_role(Role::parameter);
  const std::vector<ValueId> gradients = differentiate(graph, loss, parameters);
  ASSERT_EQ(gradients.size(), parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(graph.value(gradients[i]).type, graph.value(parameters[i]).type)
        << graph.value(parameters[i]).name;
  }
}

TEST(Autodiff, sums_the_gradients_of_a_value_used_twice) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId h = b.relu(b.linear("fc1", b.input("inputs", {2, 4}), 4), "h");
  const ValueId both = b.add(b.linear("fc2", h, 4), h, "residual");
  const ValueId loss = b.softmax_cross_entropy(both, b.label("labels", {2}));
  const ValueId gradient = differentiate(graph, loss, {h})[0];
  const Node& sum = producer(graph, gradient);
  ASSERT_EQ(sum.op->name(), "add");
  std::vector<std::string_view> parts;
  for (const ValueId id : sum.inputs) parts.push_back(producer(graph, id).op->name());
  EXPECT_THAT(parts,
              testing::UnorderedElementsAre("linear_input_gradient", "softmax_cross_entropy_gradient"));
}

TEST(Autodiff, a_weight_used_by_three_layers_gets_two_sums) {
  Graph graph("g");
  GraphBuilder b(graph);
  ValueId x = b.input("inputs", {2, 4});
  const ValueId weight = b.parameter("shared.weight", {4, 4}, "glorot_uniform");
  for (int i = 0; i < 3; ++i) x = b.apply("linear", {x, weight, none})[0];
  const ValueId loss = b.softmax_cross_entropy(x, b.label("labels", {2}));
  const ValueId gradient = differentiate(graph, loss, {weight})[0];
  const std::vector<bool> used = ancestors(graph, {gradient});
  EXPECT_EQ(count(graph, "add"), 2u);
  EXPECT_EQ(count(graph, "linear_weight_gradient"), 3u);
  EXPECT_EQ(producer(graph, gradient).op->name(), "add");
}

TEST(Autodiff, the_input_of_the_first_layer_gets_no_gradient) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.relu(b.convolution("conv1", b.input("inputs", {2, 1, 8, 8}), 3, {.kernel = 3}));
  const ValueId y = b.relu(b.convolution("conv2", x, 3, {.kernel = 3}));
  const ValueId loss = b.softmax_cross_entropy(b.flatten(y), b.label("labels", {2}));
  const std::vector<ValueId> parameters = graph.with_role(Role::parameter);
  for (const ValueId id : differentiate(graph, loss, parameters)) graph.add_output(graph.value(id).name, id);
  const Graph pruned = graph.pruned();
  EXPECT_EQ(count(pruned, "convolution_input_gradient"), 1u);
  EXPECT_EQ(pruned.find_node("conv1.input_gradient"), none);
  EXPECT_NE(pruned.find_node("conv2.input_gradient"), none);
}

TEST(Autodiff, the_gradient_of_a_loss_by_itself_is_not_multiplied) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.linear("fc", b.input("inputs", {2, 4}), 3);
  const ValueId loss = b.softmax_cross_entropy(x, b.label("labels", {2}));
  const ValueId gradient = differentiate(graph, loss, {x})[0];
  EXPECT_EQ(producer(graph, gradient).op->name(), "softmax_cross_entropy_gradient");
  EXPECT_EQ(producer(graph, gradient).inputs[2], none);
}

TEST(Autodiff, refuses_a_value_that_does_not_reach_the_loss) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.linear("fc", b.input("inputs", {2, 4}), 3);
  const ValueId unused = b.parameter("unused", {3}, "zeros");
  const ValueId loss = b.softmax_cross_entropy(x, b.label("labels", {2}));
  EXPECT_THAT([&] { differentiate(graph, loss, {unused}); },
              testing::ThrowsMessage<GraphError>(HasSubstr("'unused' does not reach the loss")));
}

TEST(Autodiff, refuses_a_loss_that_is_not_a_scalar) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.linear("fc", b.input("inputs", {2, 4}), 3);
  EXPECT_THAT([&] { differentiate(graph, x, {graph.find("fc.weight")}); },
              testing::ThrowsMessage<GraphError>(HasSubstr("not a floating-point scalar")));
}

TEST(Autodiff, refuses_an_op_without_a_gradient_and_names_it) {
  Graph graph("g");
  GraphBuilder b(graph, false);
  const ValueId x = b.batch_norm("bn", b.input("inputs", {2, 3, 4, 4}));
  GraphBuilder training(graph);
  const ValueId loss = training.softmax_cross_entropy(training.flatten(x), training.label("labels", {2}));
  EXPECT_THAT([&] { differentiate(graph, loss, {graph.find("bn.weight")}); },
              testing::ThrowsMessage<GraphError>(HasSubstr("[batch_norm] has no gradient (node 'bn')")));
}

}  // namespace
}  // namespace assay

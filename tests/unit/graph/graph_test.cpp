#include "harness/graph/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Graph, a_name_is_given_once) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.input("inputs", {2, 4});
  EXPECT_THAT([&] { b.input("inputs", {2}); }, ThrowsMessage<GraphError>(HasSubstr("'inputs' is taken")));
  b.relu(x, "r");
  EXPECT_THAT([&] { b.relu(x, "r"); },
              ThrowsMessage<GraphError>(HasSubstr("[relu] the node name 'r' is taken")));
  EXPECT_THAT([&] { b.relu(x, "inputs"); },
              ThrowsMessage<GraphError>(HasSubstr("the value name 'inputs' is taken")));
  EXPECT_EQ(graph.value(b.relu(x)).name, "relu");
  EXPECT_EQ(graph.value(b.relu(x)).name, "relu_2");
}

TEST(Graph, a_refused_node_does_not_change_the_graph) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.input("inputs", {2, 4});
  EXPECT_THROW(b.apply("linear_input_gradient", {x, x, none}), GraphError);
  EXPECT_EQ(graph.nodes().size(), 0u);
  EXPECT_EQ(graph.values().size(), 1u);
}

TEST(Graph, an_operand_must_be_a_value_of_the_graph) {
  Graph graph("g");
  GraphBuilder b(graph);
  b.input("inputs", {2, 4});
  EXPECT_THROW(b.relu(7), GraphError);
  EXPECT_THROW(b.relu(-2), GraphError);
  EXPECT_THAT([&] { b.relu(none); }, ThrowsMessage<GraphError>(HasSubstr("[relu] operand 'x' is missing")));
}

TEST(Graph, pruned_keeps_only_nodes_for_outputs_and_updates) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.input("inputs", {2, 3, 4, 4});
  const ValueId y = b.batch_norm("bn", x);
  b.relu(y, "unused");
  graph.add_output("pooled", b.max_pool(y, {.kernel = 2, .stride = 2}, "pool"));
  const Graph pruned = graph.pruned();
  EXPECT_EQ(pruned.find("unused"), none);
  EXPECT_EQ(pruned.find("pool.argmax"), none);
  EXPECT_EQ(pruned.find("bn.mean"), none);
  EXPECT_NE(pruned.find("bn.new_running_mean"), none);
  EXPECT_EQ(pruned.updates().size(), 2u);
  EXPECT_EQ(pruned.value(pruned.output("pooled")).type.shape, (Shape{2, 3, 2, 2}));
}

TEST(Graph, an_update_needs_a_persistent_target_of_the_same_type_once) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.input("inputs", {2, 4});
  const ValueId state = b.state("state", {2, 4}, "zeros");
  const ValueId other = b.state("other", {4, 2}, "zeros");
  EXPECT_THAT([&] { graph.add_update(x, state); }, ThrowsMessage<GraphError>(HasSubstr("cannot be updated")));
  EXPECT_THAT([&] { graph.add_update(other, x); },
              ThrowsMessage<GraphError>(HasSubstr("cannot be updated from")));
  graph.add_update(state, x);
  EXPECT_THAT([&] { graph.add_update(state, x); }, ThrowsMessage<GraphError>(HasSubstr("updated twice")));
}

TEST(Graph, an_unknown_output_is_named) {
  EXPECT_THAT([] { Graph("g").output("loss"); }, ThrowsMessage<GraphError>("graph 'g' has no output 'loss'"));
}

}  // namespace
}  // namespace assay

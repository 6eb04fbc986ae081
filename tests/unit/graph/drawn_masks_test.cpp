#include "harness/graph/passes/training_step.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

Program dropping() {
  const auto network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
    x = b.dropout(b.relu(b.linear("fc1", b.flatten(x), 16)), 0.25, "drop");
    return b.linear("fc2", x, classes);
  };
  return Workload{.name = "dropping", .sample_shape = {1, 4, 4}, .classes = 5, .network = network}.build(4);
}

TEST(DrawnMasks, a_graph_without_dropout_stays_as_it_is) {
  const Graph graph = find_workload("mlp").build(2).training.value();
  EXPECT_EQ(with_drawn_masks(graph).nodes().size(), graph.nodes().size());
  EXPECT_EQ(with_drawn_masks(graph).find("seed"), none);
}

TEST(DrawnMasks, are_drawn_before_they_are_read_and_kept_for_the_next_step) {
  const Graph graph = with_drawn_masks(dropping().training.value());
  const NodeId draw = graph.find_node("drop.mask.drawn");
  ASSERT_NE(draw, none);
  EXPECT_EQ(graph.node(draw).attributes.number("rate"), 0.25);
  EXPECT_EQ(graph.node(graph.find_node("drop")).inputs[1], graph.node(draw).outputs[0]);
  EXPECT_LT(draw, graph.find_node("drop"));
  ASSERT_EQ(graph.updates().size(), 1u);
  EXPECT_EQ(graph.value(graph.updates()[0].target).name, "drop.mask");
  EXPECT_EQ(graph.value(graph.find("seed")).role, Role::seed);
}

TEST(DrawnMasks, serve_the_gradient_too) {
  const Graph graph = training_step(dropping(), {});
  const Node& gradient = graph.node(graph.find_node("drop.gradient"));
  EXPECT_EQ(gradient.op->name(), "dropout");
  EXPECT_EQ(gradient.inputs[1], graph.find("drop.mask.drawn"));
  EXPECT_EQ(graph.with_role(Role::schedule).size(), 1u);
}

TEST(DrawnMasks, RefusesTwoRatesInOneMask) {
  Graph graph("two");
  GraphBuilder b(graph);
  const ValueId x = b.input("inputs", {2, 3});
  const ValueId mask = graph.add_value("mask", {DType::u8, {2, 3}}, Role::mask);
  b.apply("dropout", {x, mask}, {{"rate", 0.5}}, "a");
  b.apply("dropout", {x, mask}, {{"rate", 0.25}}, "b");
  EXPECT_THROW(with_drawn_masks(graph), GraphError);
}

TEST(Dropout, is_absent_from_inference) {
  const Program program = dropping();
  EXPECT_EQ(program.inference.find_node("drop"), none);
  EXPECT_TRUE(program.inference.with_role(Role::mask).empty());
}

TEST(Dropout, refuses_a_rate_of_one_and_a_mask_of_another_shape_or_type) {
  Graph graph("bad");
  GraphBuilder b(graph);
  const ValueId x = b.input("inputs", {2, 3});
  const ValueId mask = graph.add_value("mask", {DType::u8, {2, 3}}, Role::mask);
  EXPECT_THROW(b.apply("dropout", {x, mask}, {{"rate", 1.0}}), GraphError);
  EXPECT_THROW(b.apply("dropout", {x, mask}, {{"rate", -0.1}}), GraphError);
  EXPECT_THROW(b.apply("dropout", {x, x}, {{"rate", 0.5}}), GraphError);
  const ValueId other = graph.add_value("other", {DType::u8, {3, 2}}, Role::mask);
  EXPECT_THROW(b.apply("dropout", {x, other}, {{"rate", 0.5}}), GraphError);
}

}  // namespace
}  // namespace assay

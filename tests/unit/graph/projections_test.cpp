#include "harness/graph/passes/projections.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/autodiff.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/passes/recompute.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

std::int64_t number_of(const Graph& graph, std::string_view op) {
  return std::ranges::count_if(graph.nodes(), [&](const Node& node) { return node.op->name() == op; });
}

// The names of the graph's results and of the parameters that it updates.
std::vector<std::string> results(const Graph& graph) {
  std::vector<std::string> names;
  for (const Graph::Output& output : graph.outputs()) names.push_back(output.name);
  for (const Update& update : graph.updates()) names.push_back(graph.value(update.target).name);
  return names;
}

std::vector<Shape> shapes_of_results(const Graph& graph) {
  std::vector<Shape> shapes;
  for (const Graph::Output& output : graph.outputs()) shapes.push_back(graph.value(output.value).type.shape);
  for (const Update& update : graph.updates()) shapes.push_back(graph.value(update.source).type.shape);
  return shapes;
}

class NetworkProjections : public ::testing::TestWithParam<const char*> {};

TEST_P(NetworkProjections, AreOneProductForEachAttention) {
  const Program program = find_workload(GetParam()).build_small();
  for (const PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16}) {
    const Graph graph = training_step(program, {.precision = precision_of(precision)}),
                joined = join_projections(graph);
    const std::int64_t attentions = number_of(graph, "attention");
    ASSERT_GT(attentions, 0);
    EXPECT_EQ(number_of(joined, "attention"), attentions);
    for (const char* op : {"linear", "linear_input_gradient", "linear_weight_gradient"})
      EXPECT_EQ(number_of(joined, op), number_of(graph, op) - 2 * attentions) << op;
    EXPECT_EQ(number_of(joined, "add"), number_of(graph, "add") - 2 * attentions)
        << "the sums of the gradients of x";
    const std::int64_t biased = std::string_view(GetParam()) == "nanogpt" ? 1 : 2;
    EXPECT_EQ(number_of(joined, "concat") - number_of(graph, "concat"), biased * attentions);
    EXPECT_EQ(number_of(joined, "slice") - number_of(graph, "slice"), 3 * biased * attentions);
    const std::int64_t casts = precision == PrecisionKind::bf16 ? 3 * attentions : 0;
    EXPECT_EQ(number_of(joined, "cast"), number_of(graph, "cast") - casts)
        << "the joined weight is the narrow copy";
    EXPECT_EQ(results(joined), results(graph));
    EXPECT_EQ(shapes_of_results(joined), shapes_of_results(graph));
    for (const Node& node : joined.nodes()) {
      if (node.op->name() != "attention") continue;
      EXPECT_EQ(node.inputs[0], node.inputs[1]);
      EXPECT_EQ(node.inputs[0], node.inputs[2]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, NetworkProjections,
                         ::testing::Values("nanogpt", "bert-base", "vit-tiny", "gpt2-small"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

// An attention of one x with four heads of queries and two of keys, and what a test changes.
struct Layer {
  bool other_x = false;      // the keys are of another tensor
  bool read_twice = false;   // the queries are a result, too
  bool two_views = false;    // the keys are also read as the values
  bool some_biases = false;  // only the queries have a bias
  bool computed = false;     // the weight of the keys is not a parameter
  bool activated = false;    // a ReLU is fused into the values
  bool differentiated = false;

  Graph graph() const {
    Graph graph("g");
    GraphBuilder b(graph, differentiated);
    const ValueId x = b.input("inputs", {2, 6, 8}), other = b.input("other", {2, 6, 8});
    const auto project = [&](const char* name, ValueId from, std::int64_t heads, bool bias) {
      ValueId weight = b.parameter(std::string(name) + ".weight", {heads * 4, 8}, "ones");
      if (computed && heads == 2) weight = b.apply("relu", {weight}, {}, std::string(name) + ".relu")[0];
      const ValueId shift = bias ? b.parameter(std::string(name) + ".bias", {heads * 4}, "zeros") : none;
      const Attributes how =
          activated && heads == 2 ? Attributes{{"activation", std::string("relu")}} : Attributes();
      const ValueId y = b.apply("linear", {from, weight, shift}, how, name)[0];
      return b.reshape(y, {2, 6, heads, 4}, std::string(name) + ".heads");
    };
    const ValueId q = project("q", x, 4, true), k = project("k", other_x ? other : x, 2, !some_biases),
                  v = two_views ? k : project("v", x, 2, !some_biases);
    const ValueId y = b.attention(q, k, v, {.causal = true, .mask = none}, "a");
    graph.add_output("y", y);
    if (read_twice) graph.add_output("q", q);
    if (differentiated) {
      const ValueId dy = b.input("dy", {2, 6, 4, 4});
      graph.add_output("dx", differentiate(graph, {{y, dy}}, {x})[0]);
    }
    return graph;
  }
};

TEST(Projections, OfGroupedHeadsAreOneProduct) {
  const Graph joined = join_projections(Layer{.differentiated = true}.graph());
  const Node& attention = joined.node(joined.find_node("a"));
  EXPECT_EQ(joined.value(attention.inputs[0]).type.shape, (Shape{2, 6, 8, 4}));
  EXPECT_EQ(attention.attributes.get<std::int64_t>("heads"), 4);
  EXPECT_EQ(joined.value(joined.output("y")).type.shape, (Shape{2, 6, 4, 4}));
  const Node& gradient = joined.node(joined.value(joined.output("dx")).producer);
  EXPECT_EQ(gradient.op->name(), "linear_input_gradient");
  EXPECT_EQ(joined.value(gradient.inputs[0]).type.shape, (Shape{2, 6, 32}));
  EXPECT_EQ(joined.value(gradient.inputs[1]).type.shape, (Shape{32, 8}));
}

TEST(Projections, StayApartWhereOneProductIsNotTheSame) {
  const auto is_joined = [](const Layer& layer) {
    return number_of(join_projections(layer.graph()), "concat") > 0;
  };
  EXPECT_TRUE(is_joined({}));
  EXPECT_FALSE(is_joined({.other_x = true}));
  EXPECT_FALSE(is_joined({.read_twice = true}));
  EXPECT_FALSE(is_joined({.two_views = true}));
  EXPECT_FALSE(is_joined({.some_biases = true}));
  EXPECT_FALSE(is_joined({.computed = true}));
  EXPECT_FALSE(is_joined({.activated = true}));
  // A gradient with respect to something that one of the three makes.
  Graph visible = Layer{.differentiated = true}.graph();
  const auto back = std::ranges::find_if(
      visible.nodes(), [](const Node& node) { return node.op->name() == "attention_gradient"; });
  visible.add_output("dk", back->outputs[1]);
  EXPECT_EQ(number_of(join_projections(visible), "concat"), 0);
  // And what a part of the sum passes back.
  Graph part = Layer{.differentiated = true}.graph();
  const auto of_q = std::ranges::find_if(part.nodes(), [&](const Node& node) {
    return node.op->name() == "linear_input_gradient" && part.value(node.inputs[1]).name == "q.weight";
  });
  part.add_output("from_q", of_q->outputs[0]);
  EXPECT_EQ(number_of(join_projections(part), "concat"), 0);
}

// Two attentions with the same parameters, the projections of the second one before those of the first.
TEST(Projections, OfTwoAttentionsMayHaveOneWeight) {
  Graph graph("g");
  GraphBuilder b(graph);
  const std::array x{b.input("inputs", {2, 6, 8}), b.input("other", {2, 6, 8})};
  std::array<ValueId, 3> weights;
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = b.parameter(fmt::format("weight{}", i), {8, 8}, "ones");
  std::array<std::array<ValueId, 3>, 2> heads;
  for (const std::size_t which : {1U, 0U}) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const ValueId y =
          b.apply("linear", {x[which], weights[i], none}, {}, fmt::format("p{}{}", which, i))[0];
      heads[which][i] = b.reshape(y, {2, 6, 2, 4}, fmt::format("h{}{}", which, i));
    }
  }
  for (const std::size_t which : {0U, 1U})
    graph.add_output(fmt::format("y{}", which), b.attention(heads[which][0], heads[which][1], heads[which][2],
                                                            {}, fmt::format("a{}", which)));
  const Graph joined = join_projections(graph);
  EXPECT_EQ(number_of(joined, "linear"), 2);
  EXPECT_EQ(number_of(joined, "concat"), 1);
}

// A network of someone else may have these names.
TEST(Projections, HaveNamesThatAreFree) {
  Graph graph = Layer{.differentiated = true}.graph();
  for (const char* name : {"a.projections", "a.projections.weight", "a.projections.heads"})
    graph.add_value(name, {DType::f32, {2}}, Role::input);
  EXPECT_EQ(number_of(join_projections(graph), "linear"), 1);
}

// A segment of recomputation that ends between the heads and their attention makes x again after its gradient.
TEST(Projections, StayApartWhereXIsMadeAgainTooLate) {
  Program program = find_workload("nanogpt").build_small();
  const Graph& forward = program.training.value();
  const NodeId norm = forward.find_node("h.0.ln_1");
  const auto attention =
      std::ranges::find_if(forward.nodes(), [](const Node& node) { return node.op->name() == "attention"; });
  ASSERT_NE(norm, none);
  program.segments = {{norm, static_cast<NodeId>(attention - forward.nodes().begin())}};
  const Graph graph = training_step(program, {.precision = precision_of(PrecisionKind::fp32)});
  const Graph joined = join_projections(graph);
  EXPECT_EQ(number_of(graph, "linear") - number_of(joined, "linear"),
            2 * (number_of(graph, "attention") - 1));
}

// Activations that are computed again are those of one more product, with the same weight.
TEST(Projections, OfActivationsThatAreComputedAgainHaveTheSameWeight) {
  Program program = find_workload("nanogpt").build_small();
  const std::int64_t attentions = number_of(program.training.value(), "attention");
  program.segments = recompute_segments(program.training.value(), "sqrt");
  const Graph graph = training_step(program, {.precision = precision_of(PrecisionKind::bf16)}),
              joined = join_projections(graph);
  std::set<ValueId> queries;
  for (const Node& node : graph.nodes())
    if (node.op->name().starts_with("attention")) queries.insert(node.inputs[0]);
  EXPECT_GT(std::ssize(queries), attentions);
  EXPECT_EQ(number_of(joined, "linear"), number_of(graph, "linear") - 2 * std::ssize(queries));
  EXPECT_EQ(number_of(joined, "concat"), attentions);
}

}  // namespace
}  // namespace assay

// The shape rules, FLOP counts and refusals of the ops of transformers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "harness/core/error.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/autodiff.hpp"
#include "harness/graph/passes/fuse.hpp"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class TransformerOp : public testing::Test {
 protected:
  ValueId value(Shape shape, DType dtype = DType::f32) {
    return graph_.add_value("v" + std::to_string(graph_.values().size()), {dtype, std::move(shape)},
                            Role::input);
  }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  const TensorType& type(std::string_view name) const { return graph_.value(graph_.find(name)).type; }
  const Node& node(std::string_view name) const { return graph_.node(graph_.find_node(name)); }

  Graph graph_{"bench"};
  GraphBuilder builder_{graph_};
};

using Gelu = TransformerOp;

TEST_F(Gelu, KnowsItsTwoFormulas) {
  const ValueId x = value({2, 3});
  for (const char* approximate : {"none", "tanh"}) {
    const ValueId y = builder_.gelu(x, approximate, approximate);
    EXPECT_EQ(type(y), type(x));
    const Node made = node(approximate);
    const ValueId dx = made.op->gradient(builder_, made, std::array{y})[0];
    EXPECT_EQ(graph_.node(graph_.value(dx).producer).attributes, made.attributes);
  }
  EXPECT_THAT([&] { builder_.gelu(x, {}, "erf"); }, ThrowsMessage<GraphError>(HasSubstr("'none' or 'tanh'")));
  EXPECT_THROW(builder_.apply("gelu", {x}), GraphError);
}

using Norm = TransformerOp;

TEST_F(Norm, NormalisesTheLastDimensionAndSavesAStatisticPerRow) {
  const ValueId x = value({2, 5, 8}, DType::bf16);
  builder_.layer_norm("layer", x);
  builder_.rms_norm("rms", x);
  for (const char* name : {"layer", "rms"}) EXPECT_EQ(type(name), type(x)) << name;
  for (const char* name : {"layer.mean", "layer.inverse_deviation", "rms.inverse_root"})
    EXPECT_EQ(type(name), (TensorType{DType::f32, {2, 5}})) << name;
  for (const char* name : {"layer.weight", "layer.bias", "rms.weight"})
    EXPECT_EQ(type(name), (TensorType{DType::f32, {8}})) << name;
  EXPECT_EQ(graph_.value(graph_.find("layer.weight")).initializer, "ones");
}

TEST_F(Norm, InInferenceOnlyTheResultIsMade) {
  GraphBuilder(graph_, false).layer_norm("layer", value({2, 8}));
  EXPECT_EQ(graph_.find("layer.mean"), none);
  EXPECT_THROW(node("layer").op->gradient(builder_, node("layer"), std::array{value({2, 8}), none, none}),
               GraphError);
}

TEST_F(Norm, RefusesWrongShapesAndEpsilons) {
  const ValueId x = value({4, 8}), wide = value({8}), narrow = value({4});
  EXPECT_THROW(builder_.layer_norm("scalar", value({})), GraphError);
  EXPECT_THROW(builder_.apply("layer_norm", {x, narrow, wide}, {{"epsilon", 1e-5}}), GraphError);
  EXPECT_THROW(builder_.apply("layer_norm", {x, wide, narrow}, {{"epsilon", 1e-5}}), GraphError);
  for (const double epsilon : {0.0, -1.0, 1.0, static_cast<double>(NAN)}) {
    EXPECT_THROW(builder_.apply("layer_norm", {x, wide, wide}, {{"epsilon", epsilon}}), GraphError)
        << epsilon;
    EXPECT_THROW(builder_.apply("rms_norm", {x, wide}, {{"epsilon", epsilon}}), GraphError) << epsilon;
  }
}

class Attention : public TransformerOp {
 protected:
  ValueId attend(const Shape& q, const Shape& k, const Shape& mask = {}, bool causal = false) {
    AttentionOptions options{.causal = causal};
    if (!mask.empty()) options.mask = value(mask);
    return builder_.attention(value(q), value(k), value(k), options, "a");
  }
};

TEST_F(Attention, HasTheShapeOfTheQueriesAndSavesLogsumexp) {
  EXPECT_EQ(type(attend({2, 5, 6, 4}, {2, 9, 3, 4})).shape, (Shape{2, 5, 6, 4}));
  EXPECT_EQ(type("a.logsumexp"), (TensorType{DType::f32, {2, 6, 5}}));
}

TEST_F(Attention, ADimensionOfTheMaskButTheLastMayBeOne) {
  for (const Shape& mask :
       {Shape{2, 6, 5, 9}, Shape{1, 1, 1, 9}, Shape{2, 1, 1, 9}, Shape{1, 6, 1, 9}, Shape{1, 1, 5, 9}}) {
    Graph graph("mask");
    GraphBuilder b(graph);
    const ValueId q = b.input("q", {2, 5, 6, 4}), k = b.input("k", {2, 9, 3, 4}), m = b.input("m", mask);
    EXPECT_NO_THROW(b.attention(q, k, k, {.mask = m})) << to_string(mask);
  }
  for (const Shape& mask : {Shape{2, 6, 5, 1}, Shape{2, 3, 5, 9}, Shape{2, 6, 9, 9}, Shape{5, 9}}) {
    EXPECT_THAT([&] { attend({2, 5, 6, 4}, {2, 9, 3, 4}, mask); },
                ThrowsMessage<GraphError>(HasSubstr("mask must")))
        << to_string(mask);
  }
}

TEST_F(Attention, RefusesShapesThatDoNotFit) {
  EXPECT_THAT([&] { attend({2, 5, 6, 4}, {2, 9, 4, 4}); },
              ThrowsMessage<GraphError>(HasSubstr("a multiple of those of k and v")));
  EXPECT_THAT([&] { attend({2, 5, 6, 4}, {3, 9, 3, 4}); }, ThrowsMessage<GraphError>(HasSubstr("samples")));
  EXPECT_THAT([&] { attend({2, 5, 6, 4}, {2, 9, 3, 8}); }, ThrowsMessage<GraphError>(HasSubstr("widths")));
  EXPECT_THROW(attend({2, 5, 24}, {2, 9, 24}), GraphError);
  EXPECT_THROW(
      builder_.attention(value({1, 2, 1, 4}), value({1, 2, 1, 4}), value({1, 2, 1, 4}), {.scale = -1}),
      GraphError);
}

TEST_F(Attention, CountsOnlyTheScoresThatACausalQuerySees) {
  attend({2, 3, 4, 8}, {2, 5, 4, 8}, {}, true);
  const double seen = 3 + 4 + 5, units = 2 * 4;
  EXPECT_EQ(cost(graph_, node("a")).flops, units * seen * (2 * 2 * 8 + 6));
  Graph graph("more queries than keys");
  GraphBuilder b(graph);
  const ValueId q = b.input("q", {1, 5, 1, 8}), k = b.input("k", {1, 3, 1, 8});
  b.attention(q, k, k, {.causal = true}, "a");
  EXPECT_EQ(cost(graph, graph.node(graph.find_node("a"))).flops, (1 + 2 + 3) * (2.0 * 2 * 8 + 6));
}

TEST_F(Attention, ItsMaskIsNoFusionAndHasNoGradient) {
  const ValueId y = attend({2, 5, 6, 4}, {2, 9, 3, 4}, {2, 1, 1, 9});
  EXPECT_FALSE(is_fused(node("a")));
  const Node made = node("a");
  const std::vector<ValueId> gradients = made.op->gradient(builder_, made, std::array{y, none});
  EXPECT_EQ(gradients[3], none);
  EXPECT_EQ(type(gradients[0]).shape, (Shape{2, 5, 6, 4}));
  EXPECT_EQ(type(gradients[1]).shape, (Shape{2, 9, 3, 4}));
  EXPECT_FALSE(is_fused(node("a.gradient")));
}

using Sequence = TransformerOp;

TEST_F(Sequence, RotaryNeedsEvenHeadsAndTurnsBackInItsGradient) {
  const ValueId y = builder_.rotary(value({2, 5, 3, 4}), 10000, true, "turned");
  EXPECT_EQ(type(y).shape, (Shape{2, 5, 3, 4}));
  const Node made = node("turned");
  const ValueId dx = made.op->gradient(builder_, made, std::array{y})[0];
  EXPECT_TRUE(graph_.node(graph_.value(dx).producer).attributes.get<bool>("inverse"));
  EXPECT_THROW(builder_.rotary(value({2, 5, 3, 5})), GraphError);
  EXPECT_THROW(builder_.rotary(value({2, 5, 4})), GraphError);
}

TEST_F(Sequence, PaddingBecomesAMaskThatAttentionAndMeanTake) {
  const ValueId mask = builder_.padding_mask(value({2, 7}, DType::i32), 0);
  EXPECT_EQ(type(mask), (TensorType{DType::f32, {2, 1, 1, 7}}));
  const ValueId x = value({2, 7, 12}), heads = value({2, 7, 3, 4});
  EXPECT_EQ(type(builder_.attention(heads, heads, heads, {.mask = mask})).shape, (Shape{2, 7, 3, 4}));
  EXPECT_EQ(type(builder_.mean_pool(x, mask)).shape, (Shape{2, 12}));
  EXPECT_THROW(builder_.mean_pool(value({3, 7, 12}), mask), GraphError);
  EXPECT_THROW(builder_.padding_mask(x, 0), GraphError);
  EXPECT_THROW(builder_.padding_mask(value({2, 7}, DType::i32), INT64_MAX), GraphError);
}

TEST_F(Sequence, CachesAreWrittenAtThePosition) {
  const ValueId position = value({1}, DType::i32), cache = value({2, 7, 3, 4}), x = value({2, 5, 3, 4});
  const auto made = [&](const char* op, std::vector<ValueId> inputs, Attributes attributes) {
    return type(builder_.apply(op, inputs, std::move(attributes)).front());
  };
  const auto count = [](std::int64_t n) { return n; };
  EXPECT_EQ(made("cache_write", {cache, x, position}, {}), (TensorType{DType::f32, {2, 7, 3, 4}}));
  EXPECT_EQ(made("cache_mask", {position}, {{"queries", count(2)}, {"keys", count(7)}}),
            (TensorType{DType::f32, {1, 1, 2, 7}}));
  EXPECT_EQ(made("advance", {position}, {{"by", count(3)}}), (TensorType{DType::i32, {1}}));
  const ValueId tokens = value({2, 7}, DType::i32);
  EXPECT_EQ(made("tokens_at", {tokens, position}, {{"length", count(4)}}), (TensorType{DType::i32, {2, 4}}));
  EXPECT_THROW(made("cache_write", {x, cache, position}, {}), GraphError) << "longer than the cache";
  EXPECT_THROW(made("cache_write", {cache, value({3, 1, 3, 4}), position}, {}), GraphError);
  EXPECT_THROW(made("cache_write", {cache, x, value({2}, DType::i32)}, {}), GraphError);
  EXPECT_THROW(made("cache_mask", {position}, {{"queries", count(0)}, {"keys", count(7)}}), GraphError);
  EXPECT_THROW(made("advance", {position}, {{"by", count(0)}}), GraphError);
  EXPECT_THROW(made("tokens_at", {tokens, position}, {{"length", count(8)}}), GraphError);
  EXPECT_THROW(made("tokens_at", {value({2, 7}), position}, {{"length", count(4)}}), GraphError);
}

TEST_F(Sequence, OnlyACausalAttentionCanBeDecoded) {
  Graph graph("step");
  const ValueId position = graph.add_value("position", {DType::i32, {1}}, Role::position, "zeros");
  GraphBuilder step(graph, {.step = true, .length = 7, .position = position});
  const ValueId x = step.input("x", {2, 1, 3, 4}), longer = step.input("longer", {2, 2, 3, 4});
  EXPECT_EQ(graph.value(step.attention(x, x, x, {.causal = true})).type.shape, (Shape{2, 1, 3, 4}));
  EXPECT_THROW(step.attention(x, x, x), GraphError);
  EXPECT_THROW(step.attention(x, longer, longer, {.causal = true}), GraphError);
  EXPECT_THROW(
      step.attention(x, x, x, {.causal = true, .mask = step.padding_mask(step.tokens("t", {2, 1}), 0)}),
      GraphError);
  EXPECT_THROW(step.rotary(x), GraphError) << "its first position is 0";
}

TEST_F(Sequence, AWholeBlockCanBeDifferentiated) {
  const ValueId mask = builder_.padding_mask(builder_.tokens("tokens", {2, 6}), 0);
  ValueId x = builder_.embedding("embedding", graph_.find("tokens"), 11, 8);
  const ValueId table = builder_.parameter("positions", {16, 8}, "uniform_fan_in");
  x = builder_.layer_norm("norm", builder_.add(x, builder_.slice(table, 0, 0, 6)));
  const ValueId q = builder_.reshape(builder_.rms_norm("rms", x), {2, 6, 2, 4});
  const ValueId y = builder_.attention(builder_.rotary(q), q, q, {.mask = mask});
  x = builder_.add(x, builder_.linear("output", builder_.reshape(y, {2, 6, 8}), 8));
  x = builder_.linear("out", builder_.silu(builder_.gelu(x)), 3);
  const ValueId labels = builder_.label("labels", {2, 6});
  const ValueId loss = builder_.softmax_cross_entropy(x, labels, "loss", -1);
  const std::vector<ValueId> parameters = graph_.with_role(Role::parameter);
  const std::vector<ValueId> gradients = differentiate(graph_, loss, parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_EQ(type(gradients[i]), type(parameters[i])) << graph_.value(parameters[i]).name;
}

using Clipping = TransformerOp;

TEST_F(Clipping, TheNormOfAnyNumberOfTensorsIsAScalar) {
  const std::vector<ValueId> gradients{value({3, 4}), value({5}), value({})};
  const Node& made = graph_.node(graph_.add_node(find_op("global_norm"), "norm", gradients));
  ASSERT_EQ(made.outputs.size(), 1u);
  EXPECT_EQ(type(made.outputs[0]), (TensorType{DType::f32, {}}));
  EXPECT_EQ(cost(graph_, made).flops, 2.0 * (12 + 5 + 1));
  EXPECT_EQ(type(builder_.apply("clip", {gradients[0], made.outputs[0]}, {{"limit", 1.0}})[0]).shape,
            (Shape{3, 4}));
  EXPECT_THROW(builder_.apply("clip", {gradients[0], gradients[1]}, {{"limit", 1.0}}), GraphError);
  EXPECT_THROW(builder_.apply("clip", {gradients[0], gradients[2]}, {{"limit", 0.0}}), GraphError);
}

}  // namespace
}  // namespace assay

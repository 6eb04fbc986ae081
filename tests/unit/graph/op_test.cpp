// The shape rules, FLOP counts and refusals of the ops.
#include "harness/graph/op.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/graph/builder.hpp"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// A graph with feeds made on the way.
class Bench {
 public:
  ValueId value(Shape shape, DType dtype = DType::f32) {
    return graph.add_value("v" + std::to_string(graph.values().size()), {dtype, std::move(shape)},
                           Role::input);
  }
  const TensorType& type(ValueId id) const { return graph.value(id).type; }

  Graph graph{"bench"};
  GraphBuilder builder{graph};
};

std::int64_t i(std::int64_t n) { return n; }

TEST(Convolution, rows_follow_from_kernel_stride_and_padding) {
  struct Case {
    std::int64_t size, kernel, stride, padding, rows;
  };
  for (const auto& [size, kernel, stride, padding, rows] :
       {Case{28, 5, 1, 0, 24}, Case{12, 3, 1, 0, 10}, Case{8, 3, 1, 1, 8}, Case{8, 3, 2, 1, 4},
        Case{7, 3, 2, 0, 3}, Case{224, 7, 2, 3, 112}, Case{5, 5, 3, 0, 1}, Case{6, 5, 3, 0, 1}}) {
    Bench b;
    const ValueId x = b.value({2, 3, size, size});
    const ValueId y =
        b.builder.convolution("c", x, 4, {.kernel = kernel, .stride = stride, .padding = padding});
    EXPECT_EQ(b.type(y).shape, (Shape{2, 4, rows, rows})) << size << " " << kernel << " " << stride;
  }
}

TEST(Convolution, takes_rectangular_kernels_and_images) {
  Bench b;
  const auto y = b.builder.apply("convolution", {b.value({1, 2, 9, 5}), b.value({3, 2, 3, 1}), none},
                                 {{"stride", i(2)}, {"padding", i(0)}});
  EXPECT_EQ(b.type(y[0]).shape, (Shape{1, 3, 4, 3}));
}

TEST(Convolution, a_refusal_names_op_shapes_and_node) {
  Bench b;
  const ValueId x = b.value({2, 3, 8, 8});
  const ValueId w = b.value({4, 5, 3, 3});
  EXPECT_THAT(
      [&] { b.builder.apply("convolution", {x, w, none}, {{"stride", i(1)}, {"padding", i(0)}}, "conv7"); },
      ThrowsMessage<GraphError>(AllOf(
          HasSubstr("[convolution] got x f32 (2, 3, 8, 8), weight f32 (4, 5, 3, 3)"), HasSubstr("conv7"))));
}

TEST(Convolution, refuses_windows_that_make_no_sense) {
  Bench b;
  const ValueId x = b.value({2, 3, 8, 8});
  const ValueId w = b.value({4, 3, 3, 3});
  const auto with = [&](std::int64_t stride, std::int64_t padding) {
    return
        [=, &b] { b.builder.apply("convolution", {x, w, none}, {{"stride", stride}, {"padding", padding}}); };
  };
  EXPECT_THAT(with(0, 0), ThrowsMessage<GraphError>(HasSubstr("the stride must be at least 1")));
  EXPECT_THAT(with(INT64_MAX, 0), ThrowsMessage<GraphError>(HasSubstr("stride")));
  EXPECT_THAT(with(1, -1), ThrowsMessage<GraphError>(HasSubstr("must not be negative")));
  EXPECT_THAT(with(1, 3), ThrowsMessage<GraphError>(HasSubstr("less than the kernel")));
  EXPECT_THAT(with(1, INT64_MAX), ThrowsMessage<GraphError>(HasSubstr("less than the kernel")));
  const ValueId large = b.value({4, 3, 9, 9});
  EXPECT_THAT(
      [&] { b.builder.apply("convolution", {x, large, none}, {{"stride", i(1)}, {"padding", i(0)}}); },
      ThrowsMessage<GraphError>(HasSubstr("larger than the padded image")));
}

TEST(Convolution, has_two_strides_four_paddings_two_dilations_and_groups) {
  Bench b;
  using Numbers = std::vector<std::int64_t>;
  const ValueId x = b.value({2, 6, 8, 10});
  const ValueId w = b.value({4, 3, 3, 2});
  const Attributes window{{"stride", Numbers{2, 1}},
                          {"padding", Numbers{1, 0, 2, 1}},
                          {"dilation", Numbers{1, 3}},
                          {"groups", i(2)}};
  const ValueId y = b.builder.apply("convolution", {x, w, none}, window, "c")[0];
  EXPECT_EQ(b.type(y).shape, (Shape{2, 4, 5, 8}));
  const Node node = b.graph.node(b.graph.find_node("c"));
  EXPECT_EQ(cost(b.graph, node).flops, 2.0 * 2 * 4 * 5 * 8 * 3 * 3 * 2);
  const std::vector<ValueId> gradients = node.op->gradient(b.builder, node, std::array{y});
  EXPECT_EQ(b.type(gradients[0]).shape, (Shape{2, 6, 8, 10}));
  EXPECT_EQ(b.type(gradients[1]).shape, (Shape{4, 3, 3, 2}));
}

TEST(Convolution, has_one_spelling_for_each_window) {
  Bench b;
  using Numbers = std::vector<std::int64_t>;
  const ValueId x = b.value({2, 6, 8, 8});
  const ValueId w = b.value({4, 6, 3, 3});
  const auto with = [&](const char* name, Attribute value) {
    Attributes window{{"stride", i(1)}, {"padding", i(0)}};
    window.set(name, std::move(value));
    return [=, &b] { b.builder.apply("convolution", {x, w, none}, window); };
  };
  const auto says = [](const char* text) { return ThrowsMessage<GraphError>(HasSubstr(text)); };
  EXPECT_THAT(with("stride", Numbers{2, 2}), says("attribute 'stride' is [2, 2]: write equal numbers as 2"));
  EXPECT_THAT(with("padding", Numbers{1, 1, 1, 1}), says("write equal numbers as 1"));
  EXPECT_THAT(with("padding", Numbers{1, 0}), says("is [1, 0]; it must have 4 numbers, or be one"));
  EXPECT_THAT(with("stride", Numbers(1000, 1)), says("has 1000 numbers; it must have 2, or be one"));
  EXPECT_THAT(with("dilation", i(1)), says("attribute 'dilation' is 1, which is the same as none"));
  EXPECT_THAT(with("groups", i(1)), says("attribute 'groups' is 1, which is the same as none"));
  EXPECT_THAT(with("groups", i(3)), says("attribute 'groups' is 3, which does not divide 4 filters"));
  EXPECT_THAT(with("groups", i(0)), says("attribute 'groups' is 0"));
  EXPECT_THAT(with("groups", i(2)), says("x must have 12 channels"));
  EXPECT_THAT(with("dilation", i(0)), says("the dilation must be at least 1"));
  EXPECT_THAT(with("dilation", i(INT64_MAX)), says("the dilation must be at least 1"));
  EXPECT_THAT(with("dilation", i(4)), says("larger than the padded image"));
}

TEST(Convolution, refuses_missing_misspelt_or_mistyped_attributes) {
  Bench b;
  const ValueId x = b.value({2, 3, 8, 8});
  const ValueId w = b.value({4, 3, 3, 3});
  const auto with = [&](Attributes attributes) {
    return [=, &b] { b.builder.apply("convolution", {x, w, none}, attributes); };
  };
  EXPECT_THAT(with({{"stride", i(1)}}),
              ThrowsMessage<GraphError>(HasSubstr("[convolution] attribute 'padding' is missing")));
  EXPECT_THAT(with({{"stride", 1.5}, {"padding", i(0)}}),
              ThrowsMessage<GraphError>(HasSubstr("attribute 'stride' is a number, not an integer")));
  EXPECT_THAT(with({{"stride", i(1)}, {"padding", i(0)}, {"paddin", i(1)}}),
              ThrowsMessage<GraphError>(HasSubstr("has no attribute 'paddin'; did you mean 'padding'?")));
  EXPECT_THAT(with({{"stride", i(1)}, {"padding", i(0)}, {"activation", std::string("tanh")}}),
              ThrowsMessage<GraphError>(HasSubstr("unknown activation 'tanh'")));
}

TEST(Convolution, counts_two_operations_per_multiply_add) {
  Bench b;
  const ValueId x = b.value({2, 3, 8, 8});
  const ValueId y = b.builder.convolution("c", x, 4, {.kernel = 3});
  const ValueId loss = b.builder.softmax_cross_entropy(b.builder.flatten(y), b.value({2}, DType::i32));
  const Node node = b.graph.node(b.graph.find_node("c"));
  const double macs = 2.0 * 4 * 6 * 6 * 3 * 3 * 3;
  EXPECT_EQ(cost(b.graph, node).flops, 2 * macs);
  EXPECT_EQ(cost(b.graph, node).bytes, 4.0 * (2 * 3 * 8 * 8 + 4 * 3 * 9 + 4 + 2 * 4 * 6 * 6));
  node.op->gradient(b.builder, node, std::array{y});
  for (const char* name : {"c.input_gradient", "c.weight_gradient"}) {
    EXPECT_EQ(cost(b.graph, b.graph.node(b.graph.find_node(name))).flops, 2 * macs) << name;
  }
  EXPECT_TRUE(b.type(loss).shape.empty());
}

TEST(Linear, inner_dimensions_must_agree) {
  Bench b;
  EXPECT_THAT(
      [&] { b.builder.apply("linear", {b.value({32, 784}), b.value({10, 128}), none}); },
      ThrowsMessage<GraphError>(HasSubstr(
          "[linear] got x f32 (32, 784), weight f32 (10, 128): inner dimensions differ (node 'linear')")));
}

TEST(Linear, bias_is_f32_for_bf16_data) {
  Bench b;
  const ValueId x = b.value({2, 4}, DType::bf16);
  const ValueId w = b.value({3, 4}, DType::bf16);
  EXPECT_EQ(b.type(b.builder.apply("linear", {x, w, b.value({3})})[0]).dtype, DType::bf16);
  EXPECT_THAT([&] { b.builder.apply("linear", {x, w, b.value({3}, DType::bf16)}); },
              ThrowsMessage<GraphError>(HasSubstr("bias must be f32 for bf16 x")));
}

TEST(Linear, keeps_all_leading_dimensions) {
  Bench b;
  const ValueId x = b.value({2, 5, 4});
  const ValueId y = b.builder.linear("fc", x, 3);
  EXPECT_EQ(b.type(y).shape, (Shape{2, 5, 3}));
  const Node node = b.graph.node(b.graph.find_node("fc"));
  EXPECT_EQ(cost(b.graph, node).flops, 2.0 * 10 * 4 * 3);
  const std::vector<ValueId> gradients = node.op->gradient(b.builder, node, std::array{y});
  EXPECT_EQ(b.type(gradients[0]).shape, (Shape{2, 5, 4}));
  EXPECT_EQ(b.type(gradients[1]).shape, (Shape{3, 4}));
  EXPECT_EQ(b.type(gradients[2]).shape, (Shape{3}));
  for (const char* name : {"fc.input_gradient", "fc.weight_gradient"})
    EXPECT_EQ(cost(b.graph, b.graph.node(b.graph.find_node(name))).flops, 2.0 * 10 * 4 * 3) << name;
  EXPECT_THROW(b.builder.linear("vector", b.value({4}), 3), GraphError);
  EXPECT_THROW(b.builder.apply("linear_weight_gradient", {x, b.value({5, 2, 3})}), GraphError);
}

TEST(Pool, drops_the_last_window_that_does_not_fit) {
  Bench b;
  const ValueId x = b.value({1, 1, 7, 7});
  EXPECT_EQ(b.type(b.builder.average_pool(x, {.kernel = 2, .stride = 2})).shape, (Shape{1, 1, 3, 3}));
  EXPECT_EQ(b.type(b.builder.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1})).shape,
            (Shape{1, 1, 4, 4}));
}

TEST(Pool, a_gradient_has_the_size_of_the_input_that_rounding_lost) {
  Bench b;
  const ValueId x = b.value({1, 1, 7, 7});
  const ValueId y = b.builder.average_pool(x, {.kernel = 2, .stride = 2});
  const Node node = b.graph.node(b.graph.value(y).producer);
  EXPECT_EQ(b.type(node.op->gradient(b.builder, node, std::array{y})[0]).shape, (Shape{1, 1, 7, 7}));
}

TEST(MaxPool, nothing_but_its_gradient_may_read_the_argmax) {
  Bench b;
  const auto results = b.builder.apply("max_pool", {b.value({1, 1, 4, 4})},
                                       {{"kernel", i(2)}, {"stride", i(2)}, {"padding", i(0)}});
  EXPECT_TRUE(b.graph.value(results[1]).opaque);
  EXPECT_THAT([&] { b.builder.relu(results[1]); },
              ThrowsMessage<GraphError>(HasSubstr("only its backend knows")));
  EXPECT_THAT([&] { b.graph.add_output("argmax", results[1]); },
              ThrowsMessage<GraphError>(HasSubstr("opaque")));
}

TEST(Add, a_gradient_of_a_smaller_b_is_a_sum) {
  Bench b;
  const ValueId y = b.builder.add(b.value({4, 2, 3}), b.value({2, 3}), "sum");
  const Node node = b.graph.node(b.graph.find_node("sum"));
  const std::vector<ValueId> gradients = node.op->gradient(b.builder, node, std::array{y});
  EXPECT_EQ(gradients[0], y);
  EXPECT_EQ(b.type(gradients[1]).shape, (Shape{2, 3}));
}

TEST(Add, only_an_operand_of_the_same_size_is_overwritten) {
  Bench b;
  b.builder.add(b.value({2, 3}), b.value({3}), "small");
  b.builder.add(b.value({2, 3}), b.value({2, 3}), "equal");
  const auto pairs = [&](const char* name) {
    const Node& node = b.graph.node(b.graph.find_node(name));
    std::vector<InPlace> all = in_place(node);
    remove_unequal(all, b.graph, node);
    return all.size();
  };
  EXPECT_EQ(pairs("small"), 1u);
  EXPECT_EQ(pairs("equal"), 2u);
}

TEST(SoftmaxCrossEntropy, takes_integer_labels_one_a_row) {
  Bench b;
  const ValueId logits = b.value({4, 10});
  EXPECT_THROW(b.builder.softmax_cross_entropy(logits, b.value({5}, DType::i32)), GraphError);
  EXPECT_THROW(b.builder.softmax_cross_entropy(logits, b.value({4})), GraphError);
  EXPECT_THROW(b.builder.softmax_cross_entropy(b.value({4, 10}, DType::bf16), b.value({4}, DType::i32)),
               GraphError);
  EXPECT_TRUE(b.type(b.builder.softmax_cross_entropy(logits, b.value({4}, DType::i32))).shape.empty());
}

TEST(SoftmaxCrossEntropy, takes_a_label_at_each_position) {
  Bench b;
  const ValueId logits = b.value({4, 7, 10}), labels = b.value({4, 7}, DType::i32);
  const ValueId loss = b.builder.softmax_cross_entropy(logits, labels, "loss", -100);
  EXPECT_TRUE(b.type(loss).shape.empty());
  EXPECT_EQ(b.type(b.graph.find("loss.probabilities")).shape, (Shape{4, 7, 10}));
  const Node node = b.graph.node(b.graph.find_node("loss"));
  const ValueId dlogits = node.op->gradient(b.builder, node, std::array{loss, none})[0];
  EXPECT_EQ(b.type(dlogits).shape, (Shape{4, 7, 10}));
  EXPECT_EQ(b.graph.node(b.graph.value(dlogits).producer).attributes, node.attributes);
  EXPECT_THROW(b.builder.softmax_cross_entropy(logits, b.value({4, 6}, DType::i32)), GraphError);
  EXPECT_THROW(b.builder.softmax_cross_entropy(logits, labels, {}, INT64_MAX), GraphError);
}

TEST(BatchNorm, saves_statistics_in_training_and_has_one_result_otherwise) {
  Bench b;
  const ValueId x = b.value({2, 3, 4, 4});
  b.builder.batch_norm("training", x);
  const Node& training = b.graph.node(b.graph.find_node("training"));
  for (std::size_t r = 1; r < 5; ++r) EXPECT_EQ(b.type(training.outputs[r]).shape, (Shape{3}));
  GraphBuilder(b.graph, false).batch_norm("inference", x);
  const Node& inference = b.graph.node(b.graph.find_node("inference"));
  for (std::size_t r = 1; r < 5; ++r) EXPECT_EQ(inference.outputs[r], none);
}

TEST(BatchNorm, refuses_an_epsilon_or_momentum_out_of_range) {
  for (const auto& [momentum, epsilon] :
       {std::pair{1.0, 1e-5}, {-0.1, 1e-5}, {0.9, 0.0}, {0.9, -1.0}, {NAN, 1e-5}, {0.9, INFINITY}}) {
    Bench b;
    EXPECT_THROW(b.builder.batch_norm("bn", b.value({2, 3, 4, 4}), momentum, epsilon), GraphError)
        << momentum << epsilon;
  }
}

TEST(Optimizer, one_node_updates_any_number_of_tensors) {
  Bench b;
  const ValueId schedule = b.value({2});
  std::vector<ValueId> inputs{schedule};
  for (const Shape& shape : {Shape{3, 4}, Shape{5}}) {
    for (int k = 0; k < 4; ++k) inputs.push_back(b.value(shape));
  }
  const Attributes attributes{{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.0}};
  const Node& node = b.graph.node(b.graph.add_node(find_op("adam"), "adam", inputs, attributes));
  ASSERT_EQ(node.outputs.size(), 6u);
  EXPECT_EQ(b.graph.value(node.outputs[0]).name, "adam");
  EXPECT_EQ(b.graph.value(node.outputs[5]).name, "adam.new_v.2");
  EXPECT_EQ(b.type(node.outputs[4]).shape, (Shape{5}));
  EXPECT_EQ(cost(b.graph, node).flops, 14.0 * (12 + 5));
  inputs.pop_back();
  EXPECT_THAT([&] { b.graph.add_node(find_op("adam"), "other", inputs, attributes); },
              ThrowsMessage<GraphError>(HasSubstr("[adam] got 8 operands")));
}

TEST(Optimizer, momentum_and_its_operand_belong_together) {
  Bench b;
  const std::vector<ValueId> without{b.value({2}), b.value({3}), b.value({3}), none};
  EXPECT_THROW(b.graph.add_node(find_op("sgd"), "a", without, {{"momentum", 0.9}, {"weight_decay", 0.0}},
                                {true, false}),
               GraphError);
  EXPECT_NO_THROW(b.graph.add_node(find_op("sgd"), "b", without, {{"momentum", 0.0}, {"weight_decay", 0.0}},
                                   {true, false}));
}

TEST(FindOp, answers_a_misspelt_name_with_the_nearest) {
  EXPECT_THAT([] { find_op("convolutoin"); },
              ThrowsMessage<GraphError>("unknown op 'convolutoin'; did you mean 'convolution'?"));
}

TEST(CheckShape, refuses_shapes_that_could_overflow) {
  EXPECT_THROW(check_shape({0}), GraphError);
  EXPECT_THROW(check_shape({4, -1}), GraphError);
  EXPECT_THROW(check_shape({INT64_MAX, 2}), GraphError);
  EXPECT_THROW(check_shape({INT64_MAX}), GraphError);
  EXPECT_THROW(check_shape({1LL << 24, 1LL << 24}), GraphError);
  EXPECT_THROW(check_shape(Shape(9, 1)), GraphError);
  EXPECT_NO_THROW(check_shape({1LL << 23, 1LL << 24}));
  EXPECT_NO_THROW(check_shape({}));
}

// An op whose gradient jumps must say where: the oracle looks how near the exam comes to such places.
TEST(Kinks, AreNamedByTheContracts) {
  std::vector<std::string> kinked;
  for (const Op* op : all_ops()) {
    Attributes attributes;
    if (op->name() == "reduce") attributes.set("kind", std::string("max"));
    if (op->kink(attributes) != Kink::nowhere) kinked.emplace_back(op->name());
  }
  EXPECT_THAT(kinked,
              testing::UnorderedElementsAre("relu", "leaky_relu", "elu", "selu", "clamp", "hard_sigmoid",
                                            "hard_swish", "max_pool", "normalise", "prelu", "reduce"));
  EXPECT_EQ(find_op("reduce").kink({{"kind", std::string("mean")}}), Kink::nowhere);
  EXPECT_EQ(find_op("relu").kink({}), Kink::at_zero);
}

TEST(Kinks, ArePiecesOfAFormula) {
  const std::vector<double> x{-4, -1, 0.5, 4, 7};
  const auto pieces = [&](const char* op, const Attributes& attributes) {
    return find_op(op).choices(attributes, {5}, x);
  };
  EXPECT_THAT(pieces("clamp", {{"least", 0.0}, {"most", 6.0}}), testing::ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(pieces("hard_sigmoid", {{"alpha", 0.2}, {"beta", 0.5}}), testing::ElementsAre(0, 1, 1, 2, 2));
  EXPECT_THAT(pieces("hard_swish", {}), testing::ElementsAre(0, 1, 1, 2, 2));
}

TEST(Kinks, ChooseAmongTheElementsOfAnOperand) {
  const Attributes pool{{"kernel", i(2)}, {"stride", i(1)}, {"padding", i(1)}};
  const std::vector<double> plane{1, 2, 4, 3};
  EXPECT_THAT(find_op("max_pool").choices(pool, {1, 1, 2, 2}, plane),
              testing::ElementsAre(0, 1, 1, 2, 2, 3, 2, 2, 3));
  const Attributes rows{{"kind", std::string("max")}, {"axes", std::vector<std::int64_t>{1}}};
  EXPECT_THAT(find_op("reduce").choices(rows, {2, 2}, plane), testing::ElementsAre(1, 2));
  const Attributes columns{{"kind", std::string("max")}, {"axes", std::vector<std::int64_t>{0}}};
  EXPECT_THAT(find_op("reduce").choices(columns, {2, 2}, plane), testing::ElementsAre(2, 3));
  const Attributes bounded{{"axes", std::vector<std::int64_t>{1}}, {"epsilon", 3.0}};
  EXPECT_THAT(find_op("normalise").choices(bounded, {2, 2}, plane), testing::ElementsAre(0, 1));
}

}  // namespace
}  // namespace assay

// The ops that compute no layer: their shape rules, FLOP counts, refusals and gradients as graphs.
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/ops/unary.hpp"
#include "harness/graph/program.hpp"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Sizes = std::vector<std::int64_t>;

class ShapeOps : public ::testing::Test {
 protected:
  ValueId value(Shape shape, DType dtype = DType::f32) {
    return graph_.add_value("v" + std::to_string(graph_.values().size()), {dtype, std::move(shape)},
                            Role::input);
  }
  TensorType type(ValueId id) const { return graph_.value(id).type; }
  // The type of the first result; a new node each time.
  TensorType apply(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    return type(builder_.apply(op, std::span<const ValueId>(inputs), std::move(attributes))[0]);
  }
  void refuses(std::string_view op, std::vector<ValueId> inputs, Attributes attributes, const char* what) {
    EXPECT_THAT([&] { apply(op, inputs, attributes); }, ThrowsMessage<GraphError>(HasSubstr(what))) << op;
  }

  Graph graph_{"bench"};
  GraphBuilder builder_{graph_};
};

std::int64_t i64(std::int64_t n) { return n; }
Attributes range(std::int64_t axis, std::int64_t begin, std::int64_t end) {
  return {{"axis", axis}, {"begin", begin}, {"end", end}};
}
Attributes over(const char* kind, Sizes axes) {
  return {{"kind", std::string(kind)}, {"axes", std::move(axes)}};
}
Attributes transposed(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }

TEST_F(ShapeOps, ReshapeTakesOneExtentFromTheCount) {
  const ValueId x = value({6, 4, 5});
  EXPECT_EQ(apply("reshape", {x}, {{"shape", Shape{-1, 2, 10}}}).shape, (Shape{6, 2, 10}));
  EXPECT_EQ(apply("reshape", {x}, {{"shape", Shape{3, -1}}}).shape, (Shape{3, 40}));
  refuses("reshape", {x}, {{"shape", Shape{-1, 7}}}, "different number of elements");
  refuses("reshape", {x}, {{"shape", Shape{-1, 240}}}, "at least 1");
  refuses("reshape", {x}, {{"shape", Shape{-1, -1, 5}}}, "at least 1");
}

TEST_F(ShapeOps, concat_adds_up_one_dimension_of_any_number_of_operands) {
  const ValueId a = value({2, 3, 4, 4}), b = value({2, 5, 4, 4}), c = value({2, 1, 4, 4});
  EXPECT_EQ(apply("concat", {a}, {{"axis", i64(1)}}).shape, (Shape{2, 3, 4, 4}));
  const std::array all{a, b, c};
  const ValueId y = builder_.concat(all, 1, "joined");
  EXPECT_EQ(type(y).shape, (Shape{2, 9, 4, 4}));
  const Node& node = graph_.node(graph_.find_node("joined"));
  EXPECT_EQ(node.outputs.size(), 1u);
  EXPECT_EQ(cost(graph_, node).bytes, 4.0 * 2 * 9 * 16 * 2);
}

TEST_F(ShapeOps, concat_refuses_operands_that_do_not_fit) {
  const ValueId a = value({2, 3}), b = value({4, 3});
  refuses("concat", {a, b}, {{"axis", i64(1)}},
          "[concat] got x f32 (2, 3), x f32 (4, 3): only the dimension 1 may differ");
  refuses("concat", {a, b}, {{"axis", i64(2)}}, "attribute 'axis' is 2, but there are 2 dimensions");
  refuses("concat", {a, b}, {{"axis", i64(-1)}}, "attribute 'axis' is -1");
  refuses("concat", {a, value({2, 3, 1})}, {{"axis", i64(0)}}, "must have 2 dimensions");
  refuses("concat", {a, value({2, 3}, DType::bf16)}, {{"axis", i64(0)}}, "same element type");
  refuses("concat", {}, {{"axis", i64(0)}}, "it takes 1 and any number of 1 more");
}

TEST_F(ShapeOps, the_gradient_of_concat_is_a_slice_for_each_operand) {
  const std::array all{value({2, 3}), value({2, 1}), value({2, 4})};
  const ValueId y = builder_.concat(all, 1);
  const Node node = graph_.node(graph_.value(y).producer);
  const std::vector<ValueId> gradients = node.op->gradient(builder_, node, std::array{y});
  ASSERT_EQ(gradients.size(), 3u);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(type(gradients[k]), type(all[k]));
  const Attributes& last = graph_.node(graph_.value(gradients[2]).producer).attributes;
  EXPECT_EQ(last.get<std::int64_t>("begin"), 4);
  EXPECT_EQ(last.get<std::int64_t>("end"), 8);
}

TEST_F(ShapeOps, concat_survives_the_form_in_json) {
  const std::array all{value({2, 3}), value({2, 1})};
  graph_.add_output("y", builder_.concat(all, 1));
  const std::string text = to_json(graph_).dump();
  EXPECT_EQ(to_json(graph_from_json(nlohmann::json::parse(text))).dump(), text);
}

TEST_F(ShapeOps, slice_takes_a_range_that_is_there) {
  const ValueId x = value({4, 6, 5});
  EXPECT_EQ(apply("slice", {x}, range(1, 2, 5)).shape, (Shape{4, 3, 5}));
  EXPECT_EQ(apply("slice", {x}, range(2, 4, 5)).shape, (Shape{4, 6, 1}));
  for (const auto& [begin, end] : {std::pair{3, 3}, {-1, 2}, {0, 7}, {5, 2}})
    refuses("slice", {x}, range(1, begin, end), "is not a range within the 6 of dimension 1");
  refuses("slice", {x}, range(3, 0, 1), "attribute 'axis' is 3");
  refuses("slice_gradient", {x}, {{"axis", i64(1)}, {"begin", i64(3)}, {"size", i64(8)}},
          "6 elements, starting at 3, do not fit into 8");
  refuses("slice_gradient", {x}, {{"axis", i64(1)}, {"begin", i64(0)}, {"size", i64(-8)}}, "must be");
}

TEST_F(ShapeOps, transpose_names_every_dimension_once) {
  const ValueId x = value({4, 6, 5});
  EXPECT_EQ(apply("transpose", {x}, {{"permutation", Sizes{2, 0, 1}}}).shape, (Shape{5, 4, 6}));
  for (const Sizes& bad :
       {Sizes{0, 1}, Sizes{0, 1, 1}, Sizes{0, 1, 3}, Sizes{-1, 0, 1}, Sizes{0, 1, 2, 3}, Sizes{}})
    refuses("transpose", {x}, {{"permutation", bad}}, "must name every dimension once");
}

TEST_F(ShapeOps, the_gradient_of_a_transpose_brings_the_dimensions_home) {
  const ValueId x = value({4, 6, 5});
  const ValueId y = builder_.apply("transpose", {x}, {{"permutation", Sizes{2, 0, 1}}})[0];
  const Node node = graph_.node(graph_.value(y).producer);
  EXPECT_EQ(type(node.op->gradient(builder_, node, std::array{y})[0]), type(x));
}

TEST_F(ShapeOps, reduce_drops_the_named_dimensions) {
  const ValueId x = value({2, 3, 4, 5});
  EXPECT_EQ(apply("reduce", {x}, over("mean", {2, 3})).shape, (Shape{2, 3}));
  EXPECT_EQ(apply("reduce", {x}, over("max", {0, 1, 2, 3})).shape, Shape{});
  EXPECT_EQ(type(builder_.global_average_pool(x)).shape, (Shape{2, 3}));
  refuses("reduce", {x}, over("median", {0}), "unknown reduction 'median'; known are sum, mean and max");
  refuses("reduce", {x}, over("sum", {}), "'axes' is empty");
  refuses("reduce", {x}, over("sum", {1, 1}), "ascending");
  refuses("reduce", {x}, over("sum", {2, 1}), "ascending");
  refuses("reduce", {x}, over("sum", {4}), "dimensions from 0 to 3");
  refuses("reduce", {value({})}, over("sum", {0}), "attribute 'axes' has 0");
  EXPECT_THROW(builder_.global_average_pool(value({2, 3})), GraphError);
}

TEST_F(ShapeOps, only_a_maximum_needs_operand_and_result_for_its_gradient) {
  const ValueId x = value({2, 3});
  for (const char* kind : {"sum", "mean", "max"}) {
    const ValueId y = builder_.apply("reduce", {x}, over(kind, {1}))[0];
    const Node node = graph_.node(graph_.value(y).producer);
    const ValueId dx = node.op->gradient(builder_, node, std::array{y})[0];
    EXPECT_EQ(type(dx), type(x)) << kind;
    const Node& gradient = graph_.node(graph_.value(dx).producer);
    EXPECT_EQ(gradient.inputs[1] != none && gradient.inputs[2] != none, std::string(kind) == "max") << kind;
  }
}

TEST_F(ShapeOps, matmul_takes_transposes_and_a_batch) {
  EXPECT_EQ(apply("matmul", {value({3, 4}), value({4, 5})}, transposed(false, false)).shape, (Shape{3, 5}));
  EXPECT_EQ(apply("matmul", {value({4, 3}), value({5, 4})}, transposed(true, true)).shape, (Shape{3, 5}));
  EXPECT_EQ(apply("matmul", {value({7, 2, 3, 4}), value({7, 2, 4, 5})}, transposed(false, false)).shape,
            (Shape{7, 2, 3, 5}));
  refuses("matmul", {value({3, 4}), value({3, 4})}, transposed(false, false), "inner dimensions differ");
  refuses("matmul", {value({4}), value({4})}, transposed(false, false), "two dimensions or more");
  refuses("matmul", {value({2, 3, 4}), value({3, 4, 5})}, transposed(false, false),
          "before the matrices differ");
  refuses("matmul", {value({3, 4}), value({1, 4, 5})}, transposed(false, false), "must have 2 dimensions");
}

TEST_F(ShapeOps, matmul_counts_two_operations_per_multiply_add) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const ValueId a = value(ta ? Shape{6, 4, 3} : Shape{6, 3, 4}),
                    b = value(tb ? Shape{6, 5, 4} : Shape{6, 4, 5});
      const ValueId y = builder_.apply("matmul", {a, b}, transposed(ta, tb))[0];
      const Node node = graph_.node(graph_.value(y).producer);
      EXPECT_EQ(cost(graph_, node).flops, 2.0 * 6 * 3 * 4 * 5);
      const std::vector<ValueId> gradients = node.op->gradient(builder_, node, std::array{y});
      EXPECT_EQ(type(gradients[0]), type(a)) << ta << tb;
      EXPECT_EQ(type(gradients[1]), type(b)) << ta << tb;
      EXPECT_EQ(cost(graph_, graph_.node(graph_.value(gradients[0]).producer)).flops, 2.0 * 6 * 3 * 4 * 5);
    }
  }
}

TEST_F(ShapeOps, dot_returns_the_type_of_its_sum_and_refuses_a_batch) {
  EXPECT_EQ(apply("dot", {value({9}, DType::bf16), value({9}, DType::bf16)}), (TensorType{DType::f32, {}}));
  refuses("dot", {value({2, 9}), value({2, 9})}, {}, "a must have 1 dimension");
  refuses("dot", {value({9}), value({8})}, {}, "same shape");
}

TEST_F(ShapeOps, functions_of_two_tensors_broadcast) {
  const ValueId a = value({2, 3});
  for (const char* op : {"add", "subtract", "multiply", "divide"}) {
    EXPECT_EQ(apply(op, {a, value({})}).shape, (Shape{2, 3})) << op;
    EXPECT_EQ(apply(op, {value({3}), a}).shape, (Shape{2, 3})) << op;
    EXPECT_EQ(apply(op, {value({4, 1, 3}), a}).shape, (Shape{4, 2, 3})) << op;
    EXPECT_EQ(apply(op, {value({2, 1}), value({1, 5})}).shape, (Shape{2, 5})) << op;
    refuses(op, {a, value({2})}, {}, "the dimensions, from the last one, must agree or be 1");
    refuses(op, {value({3}, DType::bf16), a}, {}, "b and a must have the same element type");
  }
}

TEST_F(ShapeOps, normalise_saves_a_norm_for_each_vector) {
  const auto results =
      builder_.apply("normalise", {value({2, 3, 4}, DType::bf16)}, {{"axes", Sizes{1}}, {"epsilon", 1e-6}});
  EXPECT_EQ(type(results[0]), (TensorType{DType::bf16, {2, 3, 4}}));
  EXPECT_EQ(type(results[1]), (TensorType{DType::f32, {2, 4}}));
  const ValueId inferred =
      GraphBuilder(graph_, false)
          .apply("normalise", {value({2, 3})}, {{"axes", Sizes{1}}, {"epsilon", 1e-6}})[1];
  EXPECT_EQ(inferred, none);
  refuses("normalise", {value({2})}, {{"axes", Sizes{0}}, {"epsilon", 0.0}}, "attribute 'epsilon' is 0");
}

TEST_F(ShapeOps, softmax_needs_a_last_dimension) {
  EXPECT_EQ(apply("softmax", {value({2, 3, 4})}).shape, (Shape{2, 3, 4}));
  refuses("softmax", {value({})}, {}, "a scalar has no last dimension");
}

TEST_F(ShapeOps, activations_keep_the_type_and_refuse_integers) {
  for (const UnaryFunction& function : unary_functions()) {
    const Attributes attributes = usual_attributes(function);
    EXPECT_EQ(apply(function.name, {value({2, 3}, DType::bf16)}, attributes),
              (TensorType{DType::bf16, {2, 3}}))
        << function.name;
    refuses(function.name, {value({2}, DType::i32)}, attributes, "x must be floating-point");
  }
}

}  // namespace
}  // namespace assay

// The fully connected layer and its gradients.
#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// One product of all elements of `rows` (..., K) with a matrix of `columns` columns or rows.
double product(const TensorType& rows, std::int64_t columns) {
  return 2.0 * static_cast<double>(rows.elements()) * static_cast<double>(columns);
}

// Operand i is (..., K) with one leading dimension or more.
void check_rows(const Operands& in, std::size_t i, const Op& op) {
  if (in.shape(i).size() >= 2) return;
  in.reject(op.operands()[i].name + " must have two dimensions or more");
}

// The shape of `rows` with another last dimension.
Shape with_last(Shape rows, std::int64_t last) {
  rows.back() = last;
  return rows;
}

class Linear final : public Op {
 public:
  std::string_view name() const override { return "linear"; }
  std::string_view contract() const override {
    return "y = x weight^T + bias. x (..., I) with one leading dimension or more, weight (O, I), bias (O); y "
           "(..., O). x, weight and y have one type; the bias and the sums are f32 for bf16 data. Attribute "
           "activation (written by fusion): y is max(y, 0) with \"relu\", or the gelu of y with \"gelu\" "
           "(approximate none) or \"gelu_tanh\". The optional operand residual (written by fusion, of the shape "
           "and type of y) is added to y; it excludes an activation.";
  }
  std::vector<Operand> operands() const override {
    return {{"x"}, {"weight"}, {"bias", true, Kind::master}, {"residual", true, Kind::storage, true}};
  }
  std::vector<std::string> attributes() const override { return {"activation"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_rows(in, 0, *this);
    in.rank(1, 2);
    in.floating(0);
    in.same_dtype(1, 0);
    in.require(in.shape(0).back() == in.shape(1)[1], "inner dimensions differ");
    if (in.has(2)) {
      in.shaped(2, {in.shape(1)[0]});
      in.accumulates(2, 0);
    }
    check_activation(in, attributes, {"relu", "gelu", "gelu_tanh"});
    const Shape y = with_last(in.shape(0), in.shape(1)[0]);
    if (in.has(3)) {
      in.same_dtype(3, 0);
      in.shaped(3, y);
      in.require(!attributes.has("activation"), "an activation and a residual exclude each other");
    }
    return {{in.dtype(0), y}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return product(inputs[0], inputs[1].shape[0]);
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    reject_fused_gradient(*this, node);
    if (node.inputs.size() > 3 && node.inputs[3] != none)
      throw GraphError("[linear] a residual is fused into node '" + node.name + "': it has no gradient");
    const ValueId dy = output_gradients[0];
    const ValueId dx = builder.apply("linear_input_gradient", {dy, node.inputs[1], none}, {},
                                     node.name + ".input_gradient")[0];
    const std::vector<ValueId> dw =
        builder.apply("linear_weight_gradient", {node.inputs[0], dy}, {}, node.name + ".weight_gradient",
                      {true, node.inputs[2] != none});
    return {dx, dw[0], dw[1]};
  }
};

class LinearInputGradient final : public Op {
 public:
  std::string_view name() const override { return "linear_input_gradient"; }
  std::string_view contract() const override {
    return "dx = dy weight. dy (..., O), weight (O, I); dx (..., I). All have one type; sums are f32 for "
           "bf16 data. The optional operand addend (written by fusion, of the shape and type of dx) is added to "
           "dx. The optional operand mask (written by fusion, of the shape and type of dx) is the output "
           "of the ReLU before it: dx is 0 where mask <= 0, with an addend, too.";
  }
  std::vector<Operand> operands() const override {
    return {{"dy"}, {"weight"}, {"mask", true}, {"addend", true, Kind::storage, true}};
  }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_rows(in, 0, *this);
    in.rank(1, 2);
    in.floating(0);
    in.same_dtype(1, 0);
    in.require(in.shape(0).back() == in.shape(1)[0], "inner dimensions differ");
    const Shape dx = with_last(in.shape(0), in.shape(1)[1]);
    in.mask(2, dx);
    if (in.has(3)) {
      in.same_dtype(3, 0);
      in.shaped(3, dx);
    }
    return {{in.dtype(0), dx}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return product(inputs[0], inputs[1].shape[1]);
  }
};

class LinearWeightGradient final : public Op {
 public:
  std::string_view name() const override { return "linear_weight_gradient"; }
  std::string_view contract() const override {
    return "dweight = dy^T x; bias_gradient[o] = the sum of dy[...,o], both over all leading dimensions. x "
           "(..., I), dy (..., O); dweight (O, I). x and dy have one type; the results have the type of the sums, f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"x"}, {"dy"}}; }
  std::vector<Result> results() const override { return {{"dweight"}, {"bias_gradient", true}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_rows(in, 0, *this);
    check_rows(in, 1, *this);
    in.floating(0);
    in.same_dtype(1, 0);
    in.require(leading(in.shape(0)) == leading(in.shape(1)), "leading dimensions differ");
    const DType sum = accumulation(in.dtype(0));
    const std::int64_t inner = in.shape(0).back(), outer = in.shape(1).back();
    return {{sum, {outer, inner}}, {sum, {outer}}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return product(inputs[0], inputs[1].shape.back());
  }
};

}  // namespace

const Op& linear_op() {
  static const Linear op;
  return op;
}
const Op& linear_input_gradient_op() {
  static const LinearInputGradient op;
  return op;
}
const Op& linear_weight_gradient_op() {
  static const LinearWeightGradient op;
  return op;
}

}  // namespace assay

// Sequences of different lengths: the mask of their padding, and the mean of the rest.
#include <fmt/format.h>

#include <limits>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

void check_mask(const Operands& in, std::int64_t samples, std::int64_t steps) {
  if (!in.has(1)) return;
  in.shaped(1, {samples, 1, 1, steps});
  in.accumulates(1, 0);
}

class PaddingMask final : public Op {
 public:
  std::string_view name() const override { return "padding_mask"; }
  std::string_view contract() const override {
    return "mask[n,0,0,t] = -inf where tokens[n,t] is the attribute padding, else 0: the mask of an "
           "attention to these tokens. tokens i32 (N, T); mask (N, 1, 1, T) is f32, or f64 with attribute "
           "dtype (written by the precision policy fp64). It has no gradient.";
  }
  std::vector<Operand> operands() const override { return {{"tokens", false, Kind::index}}; }
  std::vector<std::string> attributes() const override { return {"padding", "dtype"}; }
  std::vector<Result> results() const override { return {{"mask"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.require(in.dtype(0) == DType::i32, "tokens must be i32");
    in.rank(0, 2);
    const auto padding = attributes.get<std::int64_t>("padding");
    in.require(padding >= std::numeric_limits<std::int32_t>::min() &&
                   padding <= std::numeric_limits<std::int32_t>::max(),
               "attribute 'padding' must be an i32");
    const DType dtype = mask_dtype(in, attributes);
    return {{dtype, {in.shape(0)[0], 1, 1, in.shape(0)[1]}}};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
};

class MeanPool final : public Op {
 public:
  std::string_view name() const override { return "mean_pool"; }
  std::string_view contract() const override {
    return "y[n] = the mean of x[n,t] over the steps t whose mask is not -inf, or over all steps without a "
           "mask; zeros if no step is left. x (N, T, D), mask (N, 1, 1, T); y (N, D) has the type of x. "
           "The mask and the sums are f32 for bf16 data. The mask has no gradient.";
  }
  std::vector<Operand> operands() const override {
    return {{"x", false, Kind::any}, {"mask", true, Kind::master}};
  }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.rank(0, 3);
    check_mask(in, in.shape(0)[0], in.shape(0)[1]);
    return {{in.dtype(0), {in.shape(0)[0], in.shape(0)[2]}}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const Shape& x = builder.graph().value(node.inputs[0]).type.shape;
    const ValueId dx = builder.apply("mean_pool_gradient", {output_gradients[0], node.inputs[1]},
                                     {{"length", x[1]}}, node.name + ".gradient")[0];
    return {dx, none};
  }
};

class MeanPoolGradient final : public Op {
 public:
  std::string_view name() const override { return "mean_pool_gradient"; }
  std::string_view contract() const override {
    return "The gradient of mean_pool: dx[n,t] = dy[n] / the number of steps of sample n whose mask is not "
           "-inf, and 0 for the other steps. dy (N, D), mask (N, 1, 1, T); dx (N, T, D) has the type of dy. "
           "Attribute length is T.";
  }
  std::vector<Operand> operands() const override {
    return {{"dy", false, Kind::any}, {"mask", true, Kind::master}};
  }
  std::vector<std::string> attributes() const override { return {"length"}; }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.rank(0, 2);
    const auto length = attributes.get<std::int64_t>("length");
    const Shape dx{in.shape(0)[0], length, in.shape(0)[1]};
    check_shape(dx);
    check_mask(in, dx[0], length);
    return {{in.dtype(0), dx}};
  }
  // One division per sample and element of the mean; then it is repeated.
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
};

}  // namespace

const Op& padding_mask_op() {
  static const PaddingMask op;
  return op;
}
const Op& mean_pool_op() {
  static const MeanPool op;
  return op;
}
const Op& mean_pool_gradient_op() {
  static const MeanPoolGradient op;
  return op;
}

}  // namespace assay

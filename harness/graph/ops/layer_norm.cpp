#include <limits>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// Statistics take three operations per element, normalising four.
constexpr double layer_norm_flops = 7;
constexpr double layer_norm_gradient_flops = 13;

class LayerNorm final : public Op {
 public:
  std::string_view name() const override { return "layer_norm"; }
  std::string_view contract() const override {
    return "y = (x - mean) * inverse_deviation * scale + shift over the last dimension of x (..., D), with "
           "inverse_deviation = 1 / sqrt(variance + epsilon): epsilon is under the root. mean and the "
           "biased variance (divided by D) are those of one row, and the variance is the mean of (x - "
           "mean)^2: the difference of the mean square and the squared mean is inexact for a row that is "
           "far from zero. scale (D), shift (D). mean (...) and inverse_deviation (...) are saved. y has the "
           "type of x; everything else is f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override {
    return {{"x"}, {"scale", false, Kind::master}, {"shift", false, Kind::master}};
  }
  std::vector<std::string> attributes() const override { return {"epsilon"}; }
  std::vector<Result> results() const override {
    return {{"y"}, {"mean", true, true}, {"inverse_deviation", true, true}};
  }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.require(!in.shape(0).empty(), "a scalar has no last dimension");
    for (const std::size_t i : {1U, 2U}) {
      in.shaped(i, {in.shape(0).back()});
      in.accumulates(i, 0);
    }
    bounded_attribute(in, attributes, "epsilon", std::numeric_limits<double>::min(), 1);
    const TensorType statistics{accumulation(in.dtype(0)), leading(in.shape(0))};
    return {inputs[0], statistics, statistics};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return layer_norm_flops * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    if (node.outputs[1] == none || node.outputs[2] == none)
      return Op::gradient(builder, node, output_gradients);
    return builder.apply(
        "layer_norm_gradient",
        {node.inputs[0], node.inputs[1], output_gradients[0], node.outputs[1], node.outputs[2]}, {},
        node.name + ".gradient");
  }
};

class LayerNormGradient final : public Op {
 public:
  std::string_view name() const override { return "layer_norm_gradient"; }
  std::string_view contract() const override {
    return "The gradient of layer_norm. With h = (x - mean) * inverse_deviation and g = dy * scale: dx = "
           "inverse_deviation * (g - mean over the row of g - h * mean over the row of (g * h)), "
           "scale_gradient = the sum over all rows of dy * h, shift_gradient = the sum over all rows of dy. "
           "x, dy and dx (..., D) have one type; scale and the other results (D), mean and "
           "inverse_deviation (...) and all sums are f32 for bf16 data. The optional operand addend (written by "
           "fusion, of the type of x) is added to dx.";
  }
  std::vector<Operand> operands() const override {
    return {{"x"},
            {"scale", false, Kind::master},
            {"dy"},
            {"mean", false, Kind::master},
            {"inverse_deviation", false, Kind::master},
            {"addend", true, Kind::storage, true}};
  }
  std::vector<Result> results() const override { return {{"dx"}, {"scale_gradient"}, {"shift_gradient"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.require(!in.shape(0).empty(), "a scalar has no last dimension");
    in.shaped(1, {in.shape(0).back()});
    in.same_type(2, 0);
    for (const std::size_t i : {3U, 4U}) in.shaped(i, leading(in.shape(0)));
    for (const std::size_t i : {1U, 3U, 4U}) in.accumulates(i, 0);
    if (in.has(5)) in.same_type(5, 0);
    return {inputs[0], inputs[1], inputs[1]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return layer_norm_gradient_flops * static_cast<double>(inputs[0].elements());
  }
  // A row of x and dy is read completely before its dx is written, and an element of addend before its own.
  std::vector<InPlace> in_place() const override { return {{0, 2}, {0, 0}, {0, 5}}; }
};

}  // namespace

const Op& layer_norm_op() {
  static const LayerNorm op;
  return op;
}
const Op& layer_norm_gradient_op() {
  static const LayerNormGradient op;
  return op;
}

}  // namespace assay

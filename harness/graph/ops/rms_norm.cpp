#include <limits>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

constexpr double rms_norm_flops = 4;
constexpr double rms_norm_gradient_flops = 9;

class RmsNorm final : public Op {
 public:
  std::string_view name() const override { return "rms_norm"; }
  std::string_view contract() const override {
    return "y = x * inverse_root * scale over the last dimension of x (..., D), with inverse_root = 1 / "
           "sqrt(mean of x^2 + epsilon): epsilon is under the root, and no mean is subtracted. scale (D); "
           "inverse_root (...) is saved. y has the type of x; everything else is f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"x"}, {"scale", false, Kind::master}}; }
  std::vector<std::string> attributes() const override { return {"epsilon"}; }
  std::vector<Result> results() const override { return {{"y"}, {"inverse_root", true, true}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.require(!in.shape(0).empty(), "a scalar has no last dimension");
    in.shaped(1, {in.shape(0).back()});
    in.accumulates(1, 0);
    bounded_attribute(in, attributes, "epsilon", std::numeric_limits<double>::min(), 1);
    return {inputs[0], {accumulation(in.dtype(0)), leading(in.shape(0))}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return rms_norm_flops * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    if (node.outputs[1] == none) return Op::gradient(builder, node, output_gradients);
    return builder.apply("rms_norm_gradient",
                         {node.inputs[0], node.inputs[1], output_gradients[0], node.outputs[1]}, {},
                         node.name + ".gradient");
  }
};

class RmsNormGradient final : public Op {
 public:
  std::string_view name() const override { return "rms_norm_gradient"; }
  std::string_view contract() const override {
    return "The gradient of rms_norm. With h = x * inverse_root and g = dy * scale: dx = inverse_root * (g - "
           "h * mean over the row of (g * h)), scale_gradient = the sum over all rows of dy * h. x, dy and "
           "dx (..., D) have one type; scale and its gradient (D), inverse_root (...) and all sums are f32 "
           "for bf16 data. The optional operand addend (written by fusion, of the type of x) is added to dx.";
  }
  std::vector<Operand> operands() const override {
    return {{"x"},
            {"scale", false, Kind::master},
            {"dy"},
            {"inverse_root", false, Kind::master},
            {"addend", true, Kind::storage, true}};
  }
  std::vector<Result> results() const override { return {{"dx"}, {"scale_gradient"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.require(!in.shape(0).empty(), "a scalar has no last dimension");
    in.shaped(1, {in.shape(0).back()});
    in.same_type(2, 0);
    in.shaped(3, leading(in.shape(0)));
    for (const std::size_t i : {1U, 3U}) in.accumulates(i, 0);
    if (in.has(4)) in.same_type(4, 0);
    return {inputs[0], inputs[1]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return rms_norm_gradient_flops * static_cast<double>(inputs[0].elements());
  }
  // A row of x and dy is read completely before its dx is written, and an element of addend before its own.
  std::vector<InPlace> in_place() const override { return {{0, 2}, {0, 0}, {0, 4}}; }
};

}  // namespace

const Op& rms_norm_op() {
  static const RmsNorm op;
  return op;
}
const Op& rms_norm_gradient_op() {
  static const RmsNormGradient op;
  return op;
}

}  // namespace assay

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

constexpr double normalise_flops = 3;  // square, sum, scale
constexpr double normalise_gradient_flops =
    5;  // a product and its sum, then a product, a difference and a scale

class Normalise final : public Op {
 public:
  std::string_view name() const override { return "normalise"; }
  std::string_view contract() const override {
    return "y = x / max(n, epsilon), where n is the Euclidean norm of x over the dimensions axes, for each "
           "index of the others: over [0, 1] a matrix is divided by its Frobenius norm, over [1] each row "
           "by its own norm. The first is what the scripts of Paltenghi et al. 2020 compute (ord=2 over all "
           "elements). epsilon is a lower bound, not an addend (like PyTorch's F.normalize; "
           "TensorFlow's l2_normalize bounds the square), so that zeros stay zeros. The saved result norm "
           "is n, without the dimensions axes. y has the type of x; norm and sums are f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"axes", "epsilon"}; }
  std::vector<Result> results() const override { return {{"y"}, {"norm", true, true}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    bounded_attribute(in, attributes, "epsilon", std::numeric_limits<float>::min(), 1);
    const auto axes = axes_attribute(in, attributes, in.shape(0).size());
    return {inputs[0], {accumulation(in.dtype(0)), without(in.shape(0), axes)}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return normalise_flops * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  Kink kink(const Attributes&) const override { return Kink::choice; }
  // Whether each norm is above epsilon.
  std::vector<std::int32_t> choices(const Attributes& attributes, const Shape& x,
                                    std::span<const double> values) const override {
    const auto& axes = attributes.get<std::vector<std::int64_t>>("axes");
    const std::vector<std::int64_t> group = index_without(x, axes);
    std::vector<double> squares(static_cast<std::size_t>(element_count(without(x, axes))));
    for (std::size_t i = 0; i < values.size(); ++i)
      squares[static_cast<std::size_t>(group[i])] += values[i] * values[i];
    const double epsilon = attributes.number("epsilon");
    std::vector<std::int32_t> above(squares.size());
    std::ranges::transform(squares, above.begin(),
                           [epsilon](double square) { return std::sqrt(square) > epsilon ? 1 : 0; });
    return above;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    if (output_gradients[1] != none)
      throw GraphError("[normalise] only y has a gradient (node '" + node.name + "')");
    return builder.apply("normalise_gradient", {node.outputs[0], node.outputs[1], output_gradients[0]},
                         node.attributes, node.name + ".gradient");
  }
};

class NormaliseGradient final : public Op {
 public:
  std::string_view name() const override { return "normalise_gradient"; }
  std::string_view contract() const override {
    return "dx = (dy - y * s) / norm, where s is the sum of dy * y over the dimensions axes; where norm is "
           "not above epsilon, dx = dy / epsilon. y and norm are the results of the normalise. y, dy and dx "
           "have one shape and type; norm and sums are f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override {
    return {{"y", false, Kind::any}, {"norm", false, Kind::master}, {"dy", false, Kind::any}};
  }
  std::vector<std::string> attributes() const override { return {"axes", "epsilon"}; }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    bounded_attribute(in, attributes, "epsilon", std::numeric_limits<float>::min(), 1);
    in.shaped(1, without(in.shape(0), axes_attribute(in, attributes, in.shape(0).size())));
    in.accumulates(1, 0);
    in.same_type(2, 0);
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return normalise_gradient_flops * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 2}}; }
};

}  // namespace

const Op& normalise_op() {
  static const Normalise op;
  return op;
}
const Op& normalise_gradient_op() {
  static const NormaliseGradient op;
  return op;
}

}  // namespace assay

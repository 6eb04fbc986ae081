#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// Operand 0 is x, operand 1 the slopes.
void check(const Operands& in) {
  in.floating(0);
  const Shape& x = in.shape(0);
  const Shape& slope = in.shape(1);
  in.require(x.size() >= 2, "x must have two dimensions at least: the second is that of the channels");
  in.require(slope.size() == 1 && (slope[0] == 1 || slope[0] == x[1]),
             "slope must have one element, or one for each channel");
  in.accumulates(1, 0);
}

class Prelu final : public Op {
 public:
  std::string_view name() const override { return "prelu"; }
  std::string_view contract() const override {
    return "y = x where x > 0, else slope[c] * x, with the channel c along the second dimension of x (N, C, ...) "
           "(He et al. 2015). slope (C), or (1) for all channels, is f32 for bf16 data; y has the type of x.";
  }
  std::vector<Operand> operands() const override {
    return {{"x", false, Kind::any}, {"slope", false, Kind::master}};
  }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    check(Operands(*this, inputs, present));
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return 2 * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  // Not at_zero: with a slope below 0 the result is positive on both sides.
  Kink kink(const Attributes&) const override { return Kink::choice; }
  std::vector<std::int32_t> choices(const Attributes&, const Shape&,
                                    std::span<const double> x) const override {
    std::vector<std::int32_t> found;
    found.reserve(x.size());
    for (const double value : x) found.push_back(value > 0 ? 1 : 0);
    return found;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("prelu_gradient", {node.inputs[0], node.inputs[1], output_gradients[0]}, {},
                         node.name + ".gradient");
  }
};

class PreluGradient final : public Op {
 public:
  std::string_view name() const override { return "prelu_gradient"; }
  std::string_view contract() const override {
    return "dx = dy where x > 0, else slope[c] * dy, and dslope[c] = sum of dy * x over the elements of channel c "
           "where x is not above 0, or over all such elements if slope is (1), with x, slope and c as in prelu. x, "
           "dy and dx have one shape and type; slope and dslope are f32 for bf16 data, and so is the sum.";
  }
  std::vector<Operand> operands() const override {
    return {{"x", false, Kind::any}, {"slope", false, Kind::master}, {"dy", false, Kind::any}};
  }
  std::vector<Result> results() const override { return {{"dx"}, {"dslope"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check(in);
    in.same_type(2, 0);
    return {inputs[0], inputs[1]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return 4 * static_cast<double>(inputs[0].elements());
  }
};

}  // namespace

const Op& prelu_op() {
  static const Prelu op;
  return op;
}
const Op& prelu_gradient_op() {
  static const PreluGradient op;
  return op;
}

}  // namespace assay

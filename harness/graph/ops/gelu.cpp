#include "harness/graph/builder.hpp"
#include "harness/graph/ops/elementwise.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {
namespace {

void check_approximate(const Operands& in, const Attributes& attributes) {
  const auto& approximate = attributes.get<std::string>("approximate");
  in.require(approximate == "none" || approximate == "tanh",
             "attribute 'approximate' must be 'none' or 'tanh'");
}

// The shape rule of the op and of its gradient: elementwise, with the attribute approximate.
class WithApproximation : public Elementwise {
 public:
  using Elementwise::Elementwise;
  std::vector<std::string> attributes() const override { return {"approximate"}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    check_approximate(Operands(*this, inputs, present), attributes);
    return Elementwise::infer(attributes, inputs, present);
  }
};

class Gelu final : public WithApproximation {
 public:
  Gelu()
      : WithApproximation(
            "gelu",
            "Attribute approximate \"none\": y = x * 0.5 * (1 + erf(x / sqrt(2))). \"tanh\": y = x * 0.5 * "
            "(1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), which differs by up to 0.0005: frameworks "
            "have different defaults. Of any shape; y has the type of x.",
            {"x"}, "y", 5, {{0, 0}}) {}
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("gelu_gradient", {node.inputs[0], output_gradients[0]}, node.attributes,
                         node.name + ".gradient");
  }
};

}  // namespace

const Op& gelu_op() {
  static const Gelu op;
  return op;
}
const Op& gelu_gradient_op() {
  static const WithApproximation op(
      "gelu_gradient",
      "Attribute approximate as in gelu. \"none\": dx = dy * (0.5 * (1 + erf(x / sqrt(2))) + x * e^(-x^2 / "
      "2) / sqrt(2 pi)). \"tanh\", with t = tanh(u) and u = sqrt(2 / pi) * (x + 0.044715 * x^3): dx = dy * "
      "0.5 * (1 + t + x * (1 - t^2) * sqrt(2 / pi) * (1 + 0.134145 * x^2)). x is the input of the gelu. x, "
      "dy and dx have one shape and type.",
      {"x", "dy"}, "dx", 10, {{0, 1}, {0, 0}});
  return op;
}

}  // namespace assay

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/elementwise.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {
namespace {

class Silu final : public Elementwise {
 public:
  Silu()
      : Elementwise(
            "silu",
            "y = x / (1 + e^-x), of any shape; some frameworks call it swish. Where e^-x overflows, y "
            "is -0, never a NaN. y has the type of x.",
            {"x"}, "y", 4, {{0, 0}}) {}
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("silu_gradient", {node.inputs[0], output_gradients[0]}, {}, node.name + ".gradient");
  }
};

}  // namespace

const Op& silu_op() {
  static const Silu op;
  return op;
}
const Op& silu_gradient_op() {
  static const Elementwise op(
      "silu_gradient",
      "dx = dy * s * (1 + x * (1 - s)) with s = 1 / (1 + e^-x). x is the input of the "
      "silu. x, dy and dx have one shape and type.",
      {"x", "dy"}, "dx", 7, {{0, 1}, {0, 0}});
  return op;
}

}  // namespace assay

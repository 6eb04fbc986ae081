#include "harness/graph/builder.hpp"
#include "harness/graph/ops/elementwise.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {
namespace {

class Softsign final : public Elementwise {
 public:
  Softsign()
      : Elementwise("softsign", "y = x / (1 + |x|), of any shape. y has the type of x.", {"x"}, "y", 2,
                    {{0, 0}}) {}
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("softsign_gradient", {node.inputs[0], output_gradients[0]}, {},
                         node.name + ".gradient");
  }
};

}  // namespace

const Op& softsign_op() {
  static const Softsign op;
  return op;
}
const Op& softsign_gradient_op() {
  static const Elementwise op(
      "softsign_gradient",
      "dx = dy / (1 + |x|)^2. x is the input of the softsign. x, dy and dx have one shape and type.",
      {"x", "dy"}, "dx", 3, {{0, 1}, {0, 0}});
  return op;
}

}  // namespace assay

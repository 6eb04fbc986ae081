#include "harness/graph/builder.hpp"
#include "harness/graph/ops/elementwise.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {
namespace {

class Relu final : public Elementwise {
 public:
  Relu()
      : Elementwise("relu", "y = max(x, 0), of any shape. y has the type of x.", {"x"}, "y", 1, {{0, 0}}) {}
  Kink kink(const Attributes&) const override { return Kink::at_zero; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("relu_gradient", {node.outputs[0], output_gradients[0]}, {},
                         node.name + ".gradient");
  }
};

}  // namespace

const Op& relu_op() {
  static const Relu op;
  return op;
}
const Op& relu_gradient_op() {
  static const Elementwise op("relu_gradient",
                              "dx = dy where y > 0, else 0: the gradient at 0 is 0. y is the output of the "
                              "ReLU, not its input. y, dy and dx have one shape and type.",
                              {"y", "dy"}, "dx", 1, {{0, 1}, {0, 0}});
  return op;
}

}  // namespace assay

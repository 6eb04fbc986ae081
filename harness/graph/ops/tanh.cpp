#include "harness/graph/builder.hpp"
#include "harness/graph/ops/elementwise.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {
namespace {

class Tanh final : public Elementwise {
 public:
  Tanh() : Elementwise("tanh", "y = tanh(x), of any shape. y has the type of x.", {"x"}, "y", 1, {{0, 0}}) {}
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("tanh_gradient", {node.outputs[0], output_gradients[0]}, {},
                         node.name + ".gradient");
  }
};

}  // namespace

const Op& tanh_op() {
  static const Tanh op;
  return op;
}
const Op& tanh_gradient_op() {
  static const Elementwise op(
      "tanh_gradient",
      "dx = dy * (1 - y^2). y is the output of the tanh. y, dy and dx have one shape and type.", {"y", "dy"},
      "dx", 3, {{0, 1}, {0, 0}});
  return op;
}

}  // namespace assay

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/elementwise.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {
namespace {

class Sigmoid final : public Elementwise {
 public:
  Sigmoid()
      : Elementwise("sigmoid",
                    "y = 1 / (1 + e^-x), of any shape: 0 if e^-x overflows and 1 if it underflows, never a "
                    "NaN. y has the type of x.",
                    {"x"}, "y", 3, {{0, 0}}) {}
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("sigmoid_gradient", {node.outputs[0], output_gradients[0]}, {},
                         node.name + ".gradient");
  }
};

}  // namespace

const Op& sigmoid_op() {
  static const Sigmoid op;
  return op;
}
const Op& sigmoid_gradient_op() {
  static const Elementwise op(
      "sigmoid_gradient",
      "dx = dy * y * (1 - y). y is the output of the sigmoid. y, dy and dx have one shape and type.",
      {"y", "dy"}, "dx", 3, {{0, 1}, {0, 0}});
  return op;
}

}  // namespace assay

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/elementwise.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {
namespace {

class Softplus final : public Elementwise {
 public:
  Softplus()
      : Elementwise("softplus",
                    "y = log(1 + e^x), of any shape, computed as max(x, 0) + log(1 + e^-|x|), so that no x "
                    "overflows; some frameworks call it softrelu. It has no threshold above which y is x "
                    "(PyTorch has one at 20, where both are the same float). y has the type of x.",
                    {"x"}, "y", 4, {{0, 0}}) {}
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("softplus_gradient", {node.inputs[0], output_gradients[0]}, {},
                         node.name + ".gradient");
  }
};

}  // namespace

const Op& softplus_op() {
  static const Softplus op;
  return op;
}
const Op& softplus_gradient_op() {
  static const Elementwise op("softplus_gradient",
                              "dx = dy / (1 + e^-x). x is the input of the softplus: its rounded output "
                              "would be too inexact. x, dy and dx have one shape and type.",
                              {"x", "dy"}, "dx", 4, {{0, 1}, {0, 0}});
  return op;
}

}  // namespace assay

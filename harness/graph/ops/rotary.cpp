#include <limits>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Rotary final : public Op {
 public:
  std::string_view name() const override { return "rotary"; }
  std::string_view contract() const override {
    return "Rotary position embedding of x (N, S, H, D), D even. Pair i of D / 2 of the head at position s = "
           "0, 1, ... is turned by the angle a = s * base^(-2 i / D): (u, w) becomes (u cos a - w sin a, u "
           "sin a + w cos a). The pair is elements i and i + D / 2 or, with attribute interleaved, 2 i and 2 "
           "i + 1. Attribute inverse (written by autodiff; default: false): the angle is -a, which is also "
           "the gradient. y has the shape and type of x; angles, sines and products are f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"base", "interleaved", "inverse"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.rank(0, 4);
    in.require(in.shape(0)[3] % 2 == 0, "the last dimension must be even");
    bounded_attribute(in, attributes, "base", 1, std::numeric_limits<float>::max());
    attributes.get<bool>("interleaved");
    attributes.get_or("inverse", false);
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return 3 * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    Attributes attributes = node.attributes;
    attributes.set("inverse", !attributes.get_or("inverse", false));
    return builder.apply("rotary", {output_gradients[0]}, std::move(attributes), node.name + ".gradient");
  }
};

}  // namespace

const Op& rotary_op() {
  static const Rotary op;
  return op;
}

}  // namespace assay

#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Add final : public Op {
 public:
  std::string_view name() const override { return "add"; }
  std::string_view contract() const override {
    return "y = a + b, elementwise, without broadcasting: for a residual connection, or for two gradients "
           "of one value. a, b and y have one shape and type. Attribute activation \"relu\" (written by "
           "fusion): y is max(y, 0).";
  }
  std::vector<Operand> operands() const override {
    return {{"a", false, Kind::any}, {"b", false, Kind::any}};
  }
  std::vector<std::string> attributes() const override { return {"activation"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.same_type(1, 0);
    check_activation(in, attributes);
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}, {0, 1}}; }
  std::vector<ValueId> gradient(GraphBuilder&, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    reject_fused_gradient(*this, node);
    return {output_gradients[0], output_gradients[0]};
  }
};

}  // namespace

const Op& add_op() {
  static const Add op;
  return op;
}

}  // namespace assay

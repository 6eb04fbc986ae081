#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Dot final : public Op {
 public:
  std::string_view name() const override { return "dot"; }
  std::string_view contract() const override {
    return "y = sum over k of a[k] * b[k], a scalar. a and b are vectors (K) of one type, without a batch: "
           "for many dot products at once use matmul. y has the type of the sum, f32 for bf16 data. The "
           "backend chooses the order of the sum.";
  }
  std::vector<Operand> operands() const override { return {{"a"}, {"b"}}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.rank(0, 1);
    in.same_type(1, 0);
    return {{accumulation(in.dtype(0)), {}}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return 2 * static_cast<double>(inputs[0].elements());
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const ValueId dy = output_gradients[0];
    return {builder.apply("multiply", {node.inputs[1], dy}, {}, node.name + ".gradient_a")[0],
            builder.apply("multiply", {node.inputs[0], dy}, {}, node.name + ".gradient_b")[0]};
  }
};

}  // namespace

const Op& dot_op() {
  static const Dot op;
  return op;
}

}  // namespace assay

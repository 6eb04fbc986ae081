#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Cast final : public Op {
 public:
  std::string_view name() const override { return "cast"; }
  std::string_view contract() const override {
    return "y = x in the floating type of the attribute dtype, rounded to nearest, ties to even; overflow "
           "becomes infinity.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"dtype"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    const DType dtype = parse_dtype(attributes.get<std::string>("dtype"));
    in.require(is_floating(dtype), "attribute 'dtype' must be a floating type");
    return {{dtype, in.shape(0)}};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const DType dtype = builder.graph().value(node.inputs[0]).type.dtype;
    return builder.apply("cast", {output_gradients[0]}, {{"dtype", std::string(to_string(dtype))}},
                         node.name + ".gradient");
  }
};

}  // namespace

const Op& cast_op() {
  static const Cast op;
  return op;
}

}  // namespace assay

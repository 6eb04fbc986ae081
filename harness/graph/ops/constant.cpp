#include <cmath>

#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Constant final : public Op {
 public:
  std::string_view name() const override { return "constant"; }
  std::string_view contract() const override {
    return "y has the attributes shape and dtype; every element is the attribute value. Autodiff starts "
           "from a constant.";
  }
  std::vector<Operand> operands() const override { return {}; }
  std::vector<std::string> attributes() const override { return {"value", "shape", "dtype"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    const DType dtype = parse_dtype(attributes.get<std::string>("dtype"));
    in.require(is_floating(dtype), "attribute 'dtype' must be a floating type");
    in.require(std::isfinite(attributes.number("value")), "attribute 'value' must be finite");
    return {{dtype, attributes.get<std::vector<std::int64_t>>("shape")}};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
  std::vector<ValueId> gradient(GraphBuilder&, const Node&, std::span<const ValueId>) const override {
    return {};
  }
};

}  // namespace

const Op& constant_op() {
  static const Constant op;
  return op;
}

}  // namespace assay

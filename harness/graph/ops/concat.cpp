#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Concat final : public Op {
 public:
  std::string_view name() const override { return "concat"; }
  std::string_view contract() const override {
    return "Joins one or more operands along the dimension axis, in their order. All other dimensions are "
           "equal, and all operands have the type of y. Attribute dtype (written by fusion): y has that floating "
           "type, to which the elements are rounded.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"axis", "dtype"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  int repeats() const override { return 1; }
  bool results_repeat() const override { return false; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    const std::size_t axis = axis_attribute(in, attributes, in.shape(0).size());
    TensorType y = inputs[0];
    if (attributes.has("dtype")) y.dtype = parse_dtype(attributes.get<std::string>("dtype"));
    in.require(is_floating(y.dtype), "attribute 'dtype' must be a floating type");
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      in.same_dtype(i, 0);
      in.rank(i, y.shape.size());
      Shape alike = in.shape(i);
      alike[axis] = in.shape(0)[axis];
      in.require(alike == in.shape(0), "only the dimension " + std::to_string(axis) + " may differ");
      y.shape[axis] += in.shape(i)[axis];
      check_shape(y.shape);  // rejects a sum before it can overflow
    }
    return {y};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    if (node.attributes.has("dtype"))
      throw GraphError("[concat] y has a type of its own: differentiate first (node '" + node.name + "')");
    const std::int64_t axis = node.attributes.get<std::int64_t>("axis");
    std::vector<ValueId> gradients;
    std::int64_t begin = 0;
    for (const ValueId input : node.inputs) {
      const std::int64_t end =
          begin + builder.graph().value(input).type.shape[static_cast<std::size_t>(axis)];
      gradients.push_back(builder.apply("slice", {output_gradients[0]},
                                        {{"axis", axis}, {"begin", begin}, {"end", end}},
                                        node.name + ".gradient" + std::to_string(gradients.size() + 1))[0]);
      begin = end;
    }
    return gradients;
  }
};

}  // namespace

const Op& concat_op() {
  static const Concat op;
  return op;
}

}  // namespace assay

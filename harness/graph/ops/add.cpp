#include <algorithm>
#include <numeric>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Add final : public Op {
 public:
  std::string_view name() const override { return "add"; }
  std::string_view contract() const override {
    return "y = a + b, elementwise: for a residual connection, or for two gradients of one value. b has the "
           "shape of a, or that of the last dimensions of a and is added for each index of the others (a "
           "vector for each position); other broadcasting is not supported. a, b and y have one type. "
           "Attribute activation \"relu\" (written by fusion): y is max(y, 0).";
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
    in.same_dtype(1, 0);
    const Shape &a = in.shape(0), &b = in.shape(1);
    const bool last = b.size() <= a.size() && (b.size() == a.size() || !b.empty()) &&
                      std::equal(b.begin(), b.end(), a.end() - static_cast<std::ptrdiff_t>(b.size()));
    in.require(last, "b must have the shape of a, or that of its last dimensions");
    check_activation(in, attributes);
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}, {0, 1}}; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    reject_fused_gradient(*this, node);
    const ValueId dy = output_gradients[0];
    const std::size_t rank = builder.graph().value(node.inputs[0]).type.shape.size();
    const std::size_t last = builder.graph().value(node.inputs[1]).type.shape.size();
    if (last == rank) return {dy, dy};
    std::vector<std::int64_t> axes(rank - last);
    std::iota(axes.begin(), axes.end(), 0);
    return {dy, builder.apply("reduce", {dy}, {{"kind", std::string("sum")}, {"axes", std::move(axes)}},
                              node.name + ".gradient_b")[0]};
  }
};

}  // namespace

const Op& add_op() {
  static const Add op;
  return op;
}

}  // namespace assay

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Transpose final : public Op {
 public:
  std::string_view name() const override { return "transpose"; }
  std::string_view contract() const override {
    return "Dimension i of y is dimension permutation[i] of x: with [1, 0] y[i,j] = x[j,i]. The attribute "
           "permutation names every dimension once. y has the type of x.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"permutation"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    const auto& permutation = attributes.get<std::vector<std::int64_t>>("permutation");
    const Shape& x = in.shape(0);
    std::vector<bool> seen(x.size(), false);
    bool fits = permutation.size() == x.size();
    TensorType y{in.dtype(0), {}};
    for (std::size_t i = 0; fits && i < x.size(); ++i) {
      const std::int64_t from = permutation[i];
      fits = from >= 0 && from < static_cast<std::int64_t>(x.size()) && !seen[static_cast<std::size_t>(from)];
      if (!fits) break;
      seen[static_cast<std::size_t>(from)] = true;
      y.shape.push_back(x[static_cast<std::size_t>(from)]);
    }
    in.require(fits, "attribute 'permutation' must name every dimension once");
    return {y};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const auto& permutation = node.attributes.get<std::vector<std::int64_t>>("permutation");
    std::vector<std::int64_t> inverse(permutation.size());
    for (std::size_t i = 0; i < permutation.size(); ++i) {
      inverse[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
    }
    return builder.apply("transpose", {output_gradients[0]}, {{"permutation", inverse}},
                         node.name + ".gradient");
  }
};

}  // namespace

const Op& transpose_op() {
  static const Transpose op;
  return op;
}

}  // namespace assay

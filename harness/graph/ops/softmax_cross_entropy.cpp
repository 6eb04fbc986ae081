#include <limits>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// Exponential, subtraction, sum, maximum and division count one each.
constexpr double flops_per_logit = 5;

// True for a constant 1: the gradient of the loss with respect to itself.
bool is_one(const Graph& graph, ValueId id) {
  const NodeId producer = graph.value(id).producer;
  if (producer == none) return false;
  const Node& node = graph.node(producer);
  return node.op == &constant_op() && node.attributes.number("value") == 1;
}

// Operand 0 is (..., C) and operand 1 has its labels.
void check_labels(const Operands& in, const Attributes& attributes) {
  in.floating(0);
  in.require(in.shape(0).size() >= 2, "the first operand must have two dimensions or more");
  in.require(in.dtype(1) == DType::i32, "labels must be i32");
  in.shaped(1, leading(in.shape(0)));
  if (!attributes.has("ignored")) return;
  const auto ignored = attributes.get<std::int64_t>("ignored");
  in.require(ignored >= std::numeric_limits<std::int32_t>::min() &&
                 ignored <= std::numeric_limits<std::int32_t>::max(),
             "attribute 'ignored' must be an i32");
}

class SoftmaxCrossEntropy final : public Op {
 public:
  std::string_view name() const override { return "softmax_cross_entropy"; }
  std::string_view contract() const override {
    return "loss = the mean over all labels of -log(softmax(logits[n])[labels[n]]), a scalar, computed with "
           "the row's maximum subtracted. logits (..., C) with one leading dimension or more, in f32 or "
           "f64; labels i32 (...) in [0, C). Attribute ignored (default: none): a label of this value, "
           "which may be outside of [0, C), does not count, and the mean is that of the others, or 0 if "
           "all are ignored. The saved result probabilities (..., C) is softmax(logits).";
  }
  std::vector<Operand> operands() const override {
    return {{"logits", false, Kind::master}, {"labels", false, Kind::index}};
  }
  std::vector<std::string> attributes() const override { return {"ignored"}; }
  std::vector<Result> results() const override { return {{"loss"}, {"probabilities", true, true}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_labels(in, attributes);
    in.require(in.dtype(0) != DType::bf16, "logits must be f32 or f64");
    return {{in.dtype(0), {}}, inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return flops_per_logit * static_cast<double>(inputs[0].elements());
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const ValueId dloss = is_one(builder.graph(), output_gradients[0]) ? none : output_gradients[0];
    const ValueId dlogits =
        builder.apply("softmax_cross_entropy_gradient", {node.outputs[1], node.inputs[1], dloss},
                      node.attributes, node.name + ".gradient")[0];
    return {dlogits, none};
  }
};

class SoftmaxCrossEntropyGradient final : public Op {
 public:
  std::string_view name() const override { return "softmax_cross_entropy_gradient"; }
  std::string_view contract() const override {
    return "dlogits[n,c] = (probabilities[n,c] - (labels[n] == c ? 1 : 0)) * dloss / N, where N is the number "
           "of labels that count; 0 for a label of the attribute ignored. probabilities (..., C), labels "
           "i32 (...); dloss is a scalar of the same type (default: 1).";
  }
  std::vector<Operand> operands() const override {
    return {{"probabilities", false, Kind::master},
            {"labels", false, Kind::index},
            {"dloss", true, Kind::master}};
  }
  std::vector<std::string> attributes() const override { return {"ignored"}; }
  std::vector<Result> results() const override { return {{"dlogits"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_labels(in, attributes);
    if (in.has(2)) {
      in.shaped(2, {});
      in.same_dtype(2, 0);
    }
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return 2 * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
};

}  // namespace

const Op& softmax_cross_entropy_op() {
  static const SoftmaxCrossEntropy op;
  return op;
}
const Op& softmax_cross_entropy_gradient_op() {
  static const SoftmaxCrossEntropyGradient op;
  return op;
}

}  // namespace assay

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

class SoftmaxCrossEntropy final : public Op {
 public:
  std::string_view name() const override { return "softmax_cross_entropy"; }
  std::string_view contract() const override {
    return "loss = the mean over the batch of -log(softmax(logits[n])[labels[n]]), a scalar, computed with "
           "the row's maximum subtracted. logits (N, C) in f32 or f64, labels i32 (N) in [0, C). The saved "
           "result probabilities (N, C) is softmax(logits).";
  }
  std::vector<Operand> operands() const override {
    return {{"logits", false, Kind::master}, {"labels", false, Kind::index}};
  }
  std::vector<Result> results() const override { return {{"loss"}, {"probabilities", true, true}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 2);
    in.floating(0);
    in.require(in.dtype(0) != DType::bf16, "logits must be f32 or f64");
    in.require(in.dtype(1) == DType::i32, "labels must be i32");
    in.shaped(1, {in.shape(0)[0]});
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
        builder.apply("softmax_cross_entropy_gradient", {node.outputs[1], node.inputs[1], dloss}, {},
                      node.name + ".gradient")[0];
    return {dlogits, none};
  }
};

class SoftmaxCrossEntropyGradient final : public Op {
 public:
  std::string_view name() const override { return "softmax_cross_entropy_gradient"; }
  std::string_view contract() const override {
    return "dlogits[n,c] = (probabilities[n,c] - (labels[n] == c ? 1 : 0)) * dloss / N. dloss is a scalar "
           "of the same type (default: 1).";
  }
  std::vector<Operand> operands() const override {
    return {{"probabilities", false, Kind::master},
            {"labels", false, Kind::index},
            {"dloss", true, Kind::master}};
  }
  std::vector<Result> results() const override { return {{"dlogits"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 2);
    in.floating(0);
    in.require(in.dtype(1) == DType::i32, "labels must be i32");
    in.shaped(1, {in.shape(0)[0]});
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

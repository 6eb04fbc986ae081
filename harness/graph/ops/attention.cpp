// Scaled dot-product attention of many heads, and its gradient.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// Scale, maximum, subtraction, exponential, sum and division of a score count one each.
constexpr double score_flops = 6;
constexpr double score_gradient_flops = 5;

// The sizes, from operands q and k, which are one value if the attributes have heads.
struct AttentionSizes {
  std::int64_t samples, queries, heads, width, keys, groups;

  AttentionSizes(const Attributes& attributes, std::span<const TensorType> inputs)
      : samples(inputs[0].shape[0]),
        queries(inputs[0].shape[1]),
        heads(inputs[0].shape[2]),
        width(inputs[0].shape[3]),
        keys(inputs[1].shape[1]),
        groups(inputs[1].shape[2]) {
    if (!is_joined(attributes)) return;
    heads = attributes.get<std::int64_t>("heads");
    groups = (groups - heads) / 2;
  }

  static bool is_joined(const Attributes& attributes) { return attributes.has("heads"); }
  Shape y() const { return {samples, queries, heads, width}; }
  Shape logsumexp() const { return {samples, heads, queries}; }

  // Pairs of a query and a key that it sees, over all heads and samples.
  double scores(bool causal) const {
    double pairs = static_cast<double>(queries) * static_cast<double>(keys);
    if (causal) {
      // Query i sees the keys up to i + keys - queries: from the last query back, keys, keys - 1, ... of them.
      const auto rows = static_cast<double>(std::min(queries, keys)), all = static_cast<double>(keys);
      pairs = rows * all - rows * (rows - 1) / 2;
    }
    return pairs * static_cast<double>(samples) * static_cast<double>(heads);
  }
  double product(bool causal) const { return 2 * scores(causal) * static_cast<double>(width); }
};

// Operands q, k, v and mask, which both ops begin with.
void check_operands(const Operands& in, const Attributes& attributes) {
  for (const std::size_t i : {0U, 1U, 2U}) in.rank(i, 4);
  in.floating(0);
  in.same_dtype(1, 0);
  in.same_type(2, 1);
  const Shape &q = in.shape(0), &k = in.shape(1);
  in.require(q[0] == k[0], "the numbers of samples differ");
  in.require(q[3] == k[3], "the widths of the heads differ");
  if (AttentionSizes::is_joined(attributes)) {
    in.same_type(1, 0);
    const auto heads = attributes.get<std::int64_t>("heads");
    in.require(heads >= 1 && heads < q[2] && (q[2] - heads) % 2 == 0,
               fmt::format("{} of the {} heads cannot be those of q", heads, q[2]));
  }
  const AttentionSizes sizes(attributes, in.types());
  in.require(sizes.heads % sizes.groups == 0, "the heads of q must be a multiple of those of k and v");
  if (in.has(3)) {
    in.rank(3, 4);
    in.accumulates(3, 0);
    const Shape &mask = in.shape(3), whole{sizes.samples, sizes.heads, sizes.queries, sizes.keys};
    bool fits = mask[3] == whole[3];
    for (std::size_t d = 0; d < 3; ++d) fits = fits && (mask[d] == 1 || mask[d] == whole[d]);
    if (!fits)
      in.reject(fmt::format("mask must be {}, where each dimension but the last may be 1", to_string(whole)));
  }
  attributes.get<bool>("causal");
  bounded_attribute(in, attributes, "scale", 0, std::numeric_limits<float>::max());
}

class Attention final : public Op {
 public:
  std::string_view name() const override { return "attention"; }
  std::string_view contract() const override {
    return "For each sample and head: y = softmax(scale * q k^T + mask) v, the softmax over the keys. q (N, "
           "S, H, D), k and v (N, T, G, D); y (N, S, H, D). G divides H: head h reads the keys and values of "
           "head h / (H / G), rounded down. Attribute scale: 0 means 1 / sqrt(D). The optional mask is "
           "added: (N, H, S, T), where each dimension but the last may be 1 and then holds for all; -inf "
           "hides a key. It has no gradient. Attribute causal: query i sees only keys j <= i + T - S, so "
           "that the last query sees all. Attribute heads (written by fusion): q, k and v are one value (N, "
           "S, H + 2 G, D): H heads of q, then G of k and G of v; heads is H. A query that sees no key "
           "gives zeros, has zero gradients, and its logsumexp is -inf. The saved result logsumexp (N, H, S) is the logarithm of the sum of e^score. "
           "q, k, v and y have one type; for bf16 data the mask, the scores, the softmax, logsumexp and all "
           "sums are f32, and only as operands of the second product the weights of the softmax are bf16.";
  }
  std::vector<Operand> operands() const override {
    return {{"q"}, {"k"}, {"v"}, {"mask", true, Kind::master}};
  }
  std::vector<std::string> attributes() const override { return {"causal", "scale", "heads"}; }
  std::vector<Result> results() const override { return {{"y"}, {"logsumexp", true, true}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_operands(in, attributes);
    const AttentionSizes sizes(attributes, inputs);
    return {{in.dtype(0), sizes.y()}, {accumulation(in.dtype(0)), sizes.logsumexp()}};
  }
  double flops(const Attributes& attributes, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    const AttentionSizes sizes(attributes, inputs);
    const bool causal = attributes.get<bool>("causal");
    return 2 * sizes.product(causal) + score_flops * sizes.scores(causal);
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    if (AttentionSizes::is_joined(node.attributes))
      throw GraphError("[attention] q, k and v are one value: differentiate first (node '" + node.name +
                       "')");
    if (node.outputs[1] == none) return Op::gradient(builder, node, output_gradients);
    if (output_gradients[1] != none)
      throw GraphError("[attention] only y has a gradient (node '" + node.name + "')");
    const std::vector<ValueId> gradients =
        builder.apply("attention_gradient",
                      {node.inputs[0], node.inputs[1], node.inputs[2], node.inputs[3], node.outputs[0],
                       node.outputs[1], output_gradients[0]},
                      node.attributes, node.name + ".gradient");
    return {gradients[0], gradients[1], gradients[2], none};
  }
};

class AttentionGradient final : public Op {
 public:
  std::string_view name() const override { return "attention_gradient"; }
  std::string_view contract() const override {
    return "The gradient of attention, with its attributes and operands; y and logsumexp are its results. "
           "For each sample and head, with p = e^(scale * q k^T + mask - logsumexp), 0 for a hidden key: dp "
           "= dy v^T, ds = p * (dp - the sum of dy * y of the query), dq = scale * ds k, dk = scale * ds^T "
           "q, dv = p^T dy; dk and dv are summed over the heads that read them. With the attribute heads, dq "
           "has all three as q has its operands, and dk and dv do not exist. All but mask and logsumexp "
           "have the type of q; sums are f32 for bf16 data, and p and ds are bf16 only as operands of the "
           "products.";
  }
  std::vector<Operand> operands() const override {
    return {{"q"}, {"k"}, {"v"}, {"mask", true, Kind::master}, {"y"}, {"logsumexp", false, Kind::master},
            {"dy"}};
  }
  std::vector<std::string> attributes() const override { return {"causal", "scale", "heads"}; }
  std::vector<Result> results() const override { return {{"dq"}, {"dk"}, {"dv"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_operands(in, attributes);
    const AttentionSizes sizes(attributes, inputs);
    for (const std::size_t i : {4U, 6U}) {
      in.same_dtype(i, 0);
      in.shaped(i, sizes.y());
    }
    in.shaped(5, sizes.logsumexp());
    in.accumulates(5, 0);
    if (AttentionSizes::is_joined(attributes)) return {inputs[0]};
    return {inputs[0], inputs[1], inputs[2]};
  }
  // The scores, which a kernel may compute again or keep, do not count.
  double flops(const Attributes& attributes, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    const AttentionSizes sizes(attributes, inputs);
    const bool causal = attributes.get<bool>("causal");
    return 4 * sizes.product(causal) + score_gradient_flops * sizes.scores(causal);
  }
};

}  // namespace

const Op& attention_op() {
  static const Attention op;
  return op;
}
const Op& attention_gradient_op() {
  static const AttentionGradient op;
  return op;
}

}  // namespace assay

// Attention as two matmuls around a softmax, with every score in memory, and its gradient by
// softmax_backward. oneDNN's softmax has no result logsumexp, and is a NaN for a row of -inf: a loop over the
// rows does these.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/onednn/primitives/composition.hpp"
#include "backends/onednn/primitives/ops.hpp"

namespace assay::onednn::primitives {
namespace {

using dnnl::algorithm;
using Dims = dnnl::memory::dims;

constexpr float lowest = -std::numeric_limits<float>::infinity();

// The operands as stacks of matrices over (sample, head), or (sample, group, head of the group) if heads
// share keys and values, which are then broadcast.
struct Stacks {
  explicit Stacks(const Request& request)
      : samples(request.inputs[0].shape[0]),
        queries(request.inputs[0].shape[1]),
        heads(request.inputs[0].shape[2]),
        depth(request.inputs[0].shape[3]),
        keys(request.inputs[1].shape[1]),
        groups(request.inputs[1].shape[2]),
        shared(heads / groups),
        dtype(request.inputs[0].dtype),
        causal(request.node.attributes.get<bool>("causal")) {
    const double given = request.node.attributes.number("scale");
    scale = static_cast<float>(given == 0 ? 1 / std::sqrt(static_cast<double>(depth)) : given);
    if (request.has_input(3)) mask = request.inputs[3].shape;
  }

  // (sample, head, rows, columns), or with a dimension for the heads of a group.
  Desc desc(DType type, std::int64_t of_group, Dims last, Dims strides) const {
    const std::int64_t rows_of = strides[0], head = strides[1], row = strides[2], column = strides[3];
    if (shared == 1) return {{samples, heads, last[0], last[1]}, to_dnnl(type), {rows_of, head, row, column}};
    return {{samples, groups, of_group, last[0], last[1]},
            to_dnnl(type),
            {rows_of, head * (of_group == 1 ? 1 : shared), head, row, column}};
  }
  // The descriptors of a tensor like q and of one like k, seen as (positions, depth) or (depth, positions).
  Desc like_q(bool transposed = false) const { return stacked(shared, queries, heads, transposed); }
  Desc like_k(bool transposed = false) const { return stacked(1, keys, groups, transposed); }
  Desc stacked(std::int64_t of_group, std::int64_t positions, std::int64_t all, bool transposed) const {
    const std::int64_t sample = positions * all * depth, row = all * depth;
    return transposed ? desc(dtype, of_group, {depth, positions}, {sample, depth, 1, row})
                      : desc(dtype, of_group, {positions, depth}, {sample, depth, row, 1});
  }
  Desc scores(DType type, bool transposed = false) const {
    const std::int64_t head = queries * keys;
    return transposed ? desc(type, shared, {keys, queries}, {heads * head, head, 1, keys})
                      : desc(type, shared, {queries, keys}, {heads * head, head, keys, 1});
  }
  // The descriptor of the gradient of k or v for each head, in f32.
  Desc of_heads() const {
    const std::int64_t head = keys * depth;
    return desc(DType::f32, shared, {keys, depth}, {heads * head, head, depth, 1});
  }
  Desc mask_desc() const {
    if (shared == 1) return row_major({DType::f32, mask});
    const bool each = mask[1] == heads;
    return row_major({DType::f32, {mask[0], each ? groups : 1, each ? shared : 1, mask[2], mask[3]}});
  }

  std::int64_t samples, queries, heads, depth, keys, groups, shared;
  DType dtype;
  bool causal;
  float scale = 0;
  Shape mask;
};

void multiply(Composition& steps, const Term& a, const Term& b, const Term& to) {
  const auto chosen =
      ASSAY_ONEDNN(dnnl::matmul::primitive_desc(steps.engine(), a.desc, b.desc, to.desc, attributes()));
  steps.run<dnnl::matmul>(chosen, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, to}});
}

// 0 for the keys that a query sees, else -inf.
Term causal_mask(Composition& steps, const Stacks& s) {
  Shape shape{1, 1, s.queries, s.keys};
  if (s.shared > 1) shape.insert(shape.begin(), 1);
  const Term mask = steps.zeros(row_major({DType::f32, shape}));
  auto* const values = static_cast<float*>(mask.memory.get_data_handle());
  for (std::int64_t i = 0; i < s.queries; ++i) {
    for (std::int64_t j = 0; j < s.keys; ++j)
      values[i * s.keys + j] = j <= i + s.keys - s.queries ? 0.0F : lowest;
  }
  return mask;
}

// A row whose keys are all masked gets zeros; the others' logsumexp is that of the largest score.
class FinishRows final : public Kernel {
 public:
  FinishRows(const Stacks& s, const Term& scores, const Term& probabilities, bool saves)
      : rows_(s.samples * s.heads * s.queries),
        keys_(s.keys),
        scores_at_(scores.offset),
        probabilities_at_(probabilities.offset),
        saves_(saves) {}

  void bind(std::span<void* const>, std::span<void* const> outputs, void* scratch) override {
    scores_ = reinterpret_cast<const float*>(static_cast<char*>(scratch) + scores_at_);
    probabilities_ = reinterpret_cast<float*>(static_cast<char*>(scratch) + probabilities_at_);
    logsumexp_ = saves_ ? static_cast<float*>(outputs[1]) : nullptr;
  }
  void run() override {
    for (std::int64_t r = 0; r < rows_; ++r) {
      const float* const scores = scores_ + r * keys_;
      float* const row = probabilities_ + r * keys_;
      const std::int64_t largest = std::max_element(scores, scores + keys_) - scores;
      const bool masked = scores[largest] == lowest;
      if (masked) std::fill_n(row, keys_, 0.0F);
      if (logsumexp_ != nullptr) logsumexp_[r] = masked ? lowest : scores[largest] - std::log(row[largest]);
    }
  }

 private:
  std::int64_t rows_, keys_, scores_at_, probabilities_at_;
  bool saves_;
  const float* scores_ = nullptr;
  float *probabilities_ = nullptr, *logsumexp_ = nullptr;
};

dnnl::softmax_forward::primitive_desc softmax(const Composition& steps, const Desc& scores) {
  return ASSAY_ONEDNN(dnnl::softmax_forward::primitive_desc(steps.engine(), dnnl::prop_kind::forward_training,
                                                            algorithm::softmax_accurate, scores, scores,
                                                            scores.get_ndims() - 1, attributes()));
}

// In f32.
Term probabilities_of(const Request& request, Composition& steps, const Stacks& s, bool saves) {
  const Term scores = steps.temporary(s.scores(DType::f32)), weights = steps.temporary(scores.desc);
  multiply(steps, steps.input(0, s.like_q()), steps.input(1, s.like_k(true)), scores);
  steps.eltwise(algorithm::eltwise_linear, scores, scores, s.scale);
  if (request.has_input(3))
    steps.binary(algorithm::binary_add, scores, steps.input(3, s.mask_desc()), scores);
  if (s.causal) steps.binary(algorithm::binary_add, scores, causal_mask(steps, s), scores);
  steps.run<dnnl::softmax_forward>(softmax(steps, scores.desc),
                                   {{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, weights}});
  steps.run(std::make_unique<FinishRows>(s, scores, weights, saves));
  return weights;
}

// As operands of a product.
Term as_operand(Composition& steps, const Stacks& s, const Term& scores) {
  if (s.dtype == DType::f32) return scores;
  const Term narrow = steps.temporary(s.scores(s.dtype));
  steps.reorder(scores, narrow);
  return narrow;
}

// Operands q, k, v, mask; results y, logsumexp.
Lowered lower_attention(const Request& request) {
  const Stacks s(request);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term weights = as_operand(steps, s, probabilities_of(request, steps, s, request.has_output(1)));
  multiply(steps, weights, steps.input(2, s.like_k()), steps.output(0, s.like_q()));
  steps.finish(lowered);
  return lowered;
}

// to = a^T b, summed over the heads that share it. a is a stack of scores.
void multiply_transposed(Composition& steps, const Stacks& s, const Term& a, const Term& b, const Term& to) {
  const Term transposed = a.as(s.scores(s.dtype, true));
  if (s.shared == 1) return multiply(steps, transposed, b, to);
  const Term each = steps.temporary(s.of_heads());
  multiply(steps, transposed, b, each);
  const Term sum = steps.temporary(row_major({DType::f32, {s.samples, s.groups, 1, s.keys, s.depth}}));
  steps.reduce(algorithm::reduction_sum, each, sum);
  steps.reorder(sum, to);
}

// Operands q, k, v, mask, y, logsumexp, dy; results dq, dk, dv.
Lowered lower_attention_gradient(const Request& request) {
  const Stacks s(request);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term weights = probabilities_of(request, steps, s, false), dy = steps.input(6, s.like_q());
  const Term dweights = steps.temporary(weights.desc), dscores = steps.temporary(weights.desc);
  multiply(steps, dy, steps.input(2, s.like_k(true)), dweights);
  const auto chosen = ASSAY_ONEDNN(dnnl::softmax_backward::primitive_desc(
      steps.engine(), algorithm::softmax_accurate, weights.desc, weights.desc, weights.desc,
      weights.desc.get_ndims() - 1, softmax(steps, weights.desc), attributes()));
  steps.run<dnnl::softmax_backward>(
      chosen, {{DNNL_ARG_DST, weights}, {DNNL_ARG_DIFF_DST, dweights}, {DNNL_ARG_DIFF_SRC, dscores}});
  steps.eltwise(algorithm::eltwise_linear, dscores, dscores, s.scale);
  const Term slopes = as_operand(steps, s, dscores);
  multiply(steps, slopes, steps.input(1, s.like_k()), steps.output(0, s.like_q()));
  multiply_transposed(steps, s, slopes, steps.input(0, s.like_q()), steps.output(1, s.like_k()));
  multiply_transposed(steps, s, as_operand(steps, s, weights), dy, steps.output(2, s.like_k()));
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> attention_ops() {
  static constexpr std::array entries{OpEntry{"attention", lower_attention},
                                      OpEntry{"attention_gradient", lower_attention_gradient}};
  return entries;
}

}  // namespace assay::onednn::primitives

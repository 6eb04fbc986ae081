// Attention, one head at a time with all of its scores in memory, and its gradient.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/reference/bf16.hpp"
#include "backends/reference/body.hpp"
#include "backends/reference/gemm.hpp"
#include "backends/reference/tf32.hpp"

namespace assay::reference {
namespace {

// Rounds a value that is computed within the op and then multiplied, as the precision does.
struct Rounding {
  bool bf16, tf32;

  template <typename T>
  T operator()(T x) const {
    if (bf16) return static_cast<T>(static_cast<float>(Bf16(static_cast<float>(x))));
    return tf32 ? static_cast<T>(to_tf32(static_cast<float>(x))) : x;
  }
};

struct AttentionSizes {
  std::int64_t samples, queries, heads, width, keys, groups;
  // Elements between the rows of positions: of q and dq, of k, v, dk and dv, and of y and dy.
  std::int64_t row_of_q, row_of_k, row_of_y;
  // Where the first head of k and v is, if q, k and v are one value, and so are their gradients.
  bool joined;
  std::int64_t first_k = 0, first_v = 0;
  std::int64_t mask_sample = 0, mask_head = 0, mask_query = 0;  // strides; 0: the dimension is 1
  bool masked, causal;
  double scale;
  Rounding rounding;

  explicit AttentionSizes(const Context& context)
      : samples(context.in(0)[0]),
        queries(context.in(0)[1]),
        heads(context.in(0)[2]),
        width(context.in(0)[3]),
        keys(context.in(1)[1]),
        groups(context.in(1)[2]),
        joined(context.node.attributes.has("heads")),
        masked(context.has_input(3)),
        causal(context.node.attributes.get<bool>("causal")),
        scale(context.node.attributes.number("scale")),
        rounding{context.inputs[0].dtype == DType::bf16, context.tf32} {
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(width));
    row_of_q = heads * width;
    row_of_k = groups * width;
    if (joined) {
      heads = context.node.attributes.get<std::int64_t>("heads");
      groups = (groups - heads) / 2;
      first_k = heads * width;
      first_v = first_k + groups * width;
    }
    row_of_y = heads * width;
    if (!masked) return;
    const Shape& mask = context.in(3);
    if (mask[2] > 1) mask_query = keys;
    if (mask[1] > 1) mask_head = mask[2] * keys;
    if (mask[0] > 1) mask_sample = mask[1] * mask[2] * keys;
  }

  std::int64_t scores() const { return queries * keys; }
  std::int64_t q_at(std::int64_t sample, std::int64_t head) const {
    return sample * queries * row_of_q + head * width;
  }
  std::int64_t k_at(std::int64_t sample, std::int64_t group) const {
    return sample * keys * row_of_k + first_k + group * width;
  }
  std::int64_t v_at(std::int64_t sample, std::int64_t group) const {
    return sample * keys * row_of_k + first_v + group * width;
  }
  std::int64_t y_at(std::int64_t sample, std::int64_t head) const {
    return sample * queries * row_of_y + head * width;
  }
  std::int64_t statistic_at(std::int64_t sample, std::int64_t head) const {
    return (sample * heads + head) * queries;
  }
  std::int64_t packed() const {
    return std::max(
        {packed_elements(keys, width), packed_elements(width, keys), packed_elements(width, queries)});
  }
};

// scores = scale q k^T + mask, -inf where a key is hidden. `packed` has room for the keys.
template <typename T>
void make_scores(const AttentionSizes& s, const Call<T>& call, std::int64_t sample, std::int64_t head,
                 T* scores, T* packed) {
  const T* k = call.in(1) + s.k_at(sample, head / (s.heads / s.groups));
  pack<T>({k, 1, s.row_of_k}, s.keys, s.width, packed);
  gemm<T>(s.queries, s.keys, s.width, {call.in(0) + s.q_at(sample, head), s.row_of_q, 1}, packed, scores,
          s.keys, false);
  for (std::int64_t i = 0; i < s.queries; ++i) {
    const T* mask =
        s.masked ? call.in(3) + sample * s.mask_sample + head * s.mask_head + i * s.mask_query : nullptr;
    T* row = scores + i * s.keys;
    const std::int64_t seen =
        s.causal ? std::clamp<std::int64_t>(i + s.keys - s.queries + 1, 0, s.keys) : s.keys;
    for (std::int64_t j = 0; j < seen; ++j)
      row[j] = row[j] * static_cast<T>(s.scale) + (mask == nullptr ? T(0) : mask[j]);
    std::fill(row + seen, row + s.keys, -std::numeric_limits<T>::infinity());
  }
}

// Replaces a row of scores by its softmax; returns the logarithm of the sum. Zeros and -inf if all are -inf.
template <typename T>
T softmax_row(T* row, std::int64_t keys, const Rounding& rounding) {
  const T largest = *std::max_element(row, row + keys);
  if (largest == -std::numeric_limits<T>::infinity()) {
    std::fill_n(row, keys, T(0));
    return largest;
  }
  T sum = 0;
  for (std::int64_t j = 0; j < keys; ++j) sum += row[j] = std::exp(row[j] - largest);
  for (std::int64_t j = 0; j < keys; ++j) row[j] = rounding(row[j] / sum);
  return largest + std::log(sum);
}

template <typename T>
Body<T> attention(const Context& context) {
  const AttentionSizes s(context);
  const bool keep = context.wants(1);
  const std::int64_t own = s.scores() + s.packed();
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    pool.run(s.samples * s.heads, 1, [&](int part, std::int64_t begin, std::int64_t end) {
      T *scores = call.scratch + part * own, *packed = scores + s.scores();
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t sample = unit / s.heads, head = unit % s.heads;
        make_scores(s, call, sample, head, scores, packed);
        for (std::int64_t i = 0; i < s.queries; ++i) {
          const T logsumexp = softmax_row(scores + i * s.keys, s.keys, s.rounding);
          if (keep) call.out(1)[s.statistic_at(sample, head) + i] = logsumexp;
        }
        const T* v = call.in(2) + s.v_at(sample, head / (s.heads / s.groups));
        pack<T>({v, s.row_of_k, 1}, s.width, s.keys, packed);
        gemm<T>(s.queries, s.width, s.keys, {scores, s.keys, 1}, packed, call.out(0) + s.y_at(sample, head),
                s.row_of_y, false);
      }
    });
  };
  return {run, own * pool.size()};
}

// Of one query: turns scores into p and dp into scale * ds.
template <typename T>
void gradient_row(const AttentionSizes& s, T logsumexp, T delta, T* p, T* ds) {
  const bool sees_none = logsumexp == -std::numeric_limits<T>::infinity();
  for (std::int64_t j = 0; j < s.keys; ++j) {
    const T weight = sees_none ? T(0) : std::exp(p[j] - logsumexp);
    ds[j] = s.rounding(static_cast<T>(s.scale) * weight * (ds[j] - delta));
    p[j] = s.rounding(weight);
  }
}

template <typename T>
Body<T> attention_gradient(const Context& context) {
  const AttentionSizes s(context);
  const std::int64_t head_elements = s.queries * s.width;
  const std::int64_t own = 2 * s.scores() + head_elements + s.packed();
  const std::int64_t shared_by = s.heads / s.groups;
  ThreadPool& pool = context.pool;
  const auto run = [=, &pool](const Call<T>& call) {
    const auto of_head = [&](std::int64_t sample, std::int64_t head, T* p, bool first) {
      T *ds = p + s.scores(), *dy = ds + s.scores(), *packed = dy + head_elements;
      const std::int64_t q_at = s.q_at(sample, head), k_at = s.k_at(sample, head / shared_by),
                         v_at = s.v_at(sample, head / shared_by), y_at = s.y_at(sample, head);
      T *dk = call.out(s.joined ? 0 : 1), *dv = call.out(s.joined ? 0 : 2);
      make_scores(s, call, sample, head, p, packed);
      for (std::int64_t i = 0; i < s.queries; ++i) {
        for (std::int64_t d = 0; d < s.width; ++d)
          dy[i * s.width + d] = s.rounding(call.in(6)[y_at + i * s.row_of_y + d]);
      }
      pack<T>({call.in(2) + v_at, 1, s.row_of_k}, s.keys, s.width, packed);
      gemm<T>(s.queries, s.keys, s.width, {dy, s.width, 1}, packed, ds, s.keys, false);
      for (std::int64_t i = 0; i < s.queries; ++i) {
        T delta = 0;
        for (std::int64_t d = 0; d < s.width; ++d) {
          const std::int64_t at = y_at + i * s.row_of_y + d;
          delta += call.in(6)[at] * call.in(4)[at];
        }
        gradient_row(s, call.in(5)[s.statistic_at(sample, head) + i], delta, p + i * s.keys, ds + i * s.keys);
      }
      pack<T>({call.in(1) + k_at, s.row_of_k, 1}, s.width, s.keys, packed);
      gemm<T>(s.queries, s.width, s.keys, {ds, s.keys, 1}, packed, call.out(0) + q_at, s.row_of_q, false);
      pack<T>({call.in(0) + q_at, s.row_of_q, 1}, s.width, s.queries, packed);
      gemm<T>(s.keys, s.width, s.queries, {ds, 1, s.keys}, packed, dk + k_at, s.row_of_k, !first);
      pack<T>({dy, s.width, 1}, s.width, s.queries, packed);
      gemm<T>(s.keys, s.width, s.queries, {p, 1, s.keys}, packed, dv + v_at, s.row_of_k, !first);
    };
    pool.run(s.samples * s.groups, 1, [&](int part, std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        for (std::int64_t h = 0; h < shared_by; ++h)
          of_head(unit / s.groups, unit % s.groups * shared_by + h, call.scratch + part * own, h == 0);
      }
    });
  };
  return {run, own * pool.size()};
}

}  // namespace

std::span<const OpEntry> attention_ops() {
  static constexpr std::array entries{
      OpEntry{"attention", attention<float>, attention<double>, 3},
      OpEntry{"attention_gradient", attention_gradient<float>, attention_gradient<double>, 3}};
  return entries;
}

}  // namespace assay::reference

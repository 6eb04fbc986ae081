// Attention and its gradient, with every score in memory. Small ones are a kernel of our own each way, and its sums over the
// queries one more. Others are stacks of products around a softmax: heads are moved next to each other first, so that one
// call computes the products of all of them.
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

struct Sizes {
  std::int64_t samples, queries, keys, heads, groups, depth;
  std::int64_t mask_sample, mask_head, mask_query;  // elements between; 0 where the mask has only one
  float scale;
  bool causal;

  explicit Sizes(const Request& request)
      : samples(request.in(0)[0]),
        queries(request.in(0)[1]),
        keys(request.in(1)[1]),
        heads(request.in(0)[2]),
        groups(request.in(1)[2]),
        depth(request.in(0)[3]),
        mask_sample(0),
        mask_head(0),
        mask_query(0),
        scale(request.number("scale")),
        causal(request.node.attributes.get<bool>("causal")) {
    if (scale == 0) scale = static_cast<float>(1 / std::sqrt(static_cast<double>(depth)));
    if (!request.has_input(3)) return;
    const Shape& mask = request.in(3);
    if (mask[2] > 1) mask_query = keys;
    if (mask[1] > 1) mask_head = keys * mask[2];
    if (mask[0] > 1) mask_sample = keys * mask[2] * mask[1];
  }
  // Of row (sample, head, query).
  ASSAY_HD std::int64_t query(std::int64_t row) const { return row % queries; }
  ASSAY_HD std::int64_t head(std::int64_t row) const { return row / queries % heads; }
  ASSAY_HD std::int64_t sample(std::int64_t row) const { return row / (queries * heads); }
  // The score of a key, from product(), that of the query and the key. mask may be null.
  template <typename Product>
  ASSAY_HD float score(std::int64_t row, std::int64_t key, const float* mask, const Product& product) const {
    if (causal && key > query(row) + keys - queries) return -INFINITY;
    const float scaled = scale * product();
    if (mask == nullptr) return scaled;
    return scaled + mask[sample(row) * mask_sample + head(row) * mask_head + query(row) * mask_query + key];
  }
  std::int64_t stacks() const { return samples * heads; }
  std::int64_t of_queries() const { return stacks() * queries * depth; }
  std::int64_t of_keys() const { return stacks() * keys * depth; }
  std::int64_t of_scores() const { return stacks() * queries * keys; }
};

// y (samples, heads, positions, depth) from x (samples, positions, groups, depth).
template <typename T>
struct SplitHeads {
  const T* x;
  T* y;
  std::int64_t positions, heads, groups, depth;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t d = i % depth, position = i / depth % positions;
    const std::int64_t head = i / (depth * positions) % heads, sample = i / (depth * positions * heads);
    const std::int64_t group = head / (heads / groups);
    y[i] = x[((sample * positions + position) * groups + group) * depth + d];
  }
};

// y (samples, positions, groups, depth) from x (samples, heads, positions, depth), summed over the heads of a
// group in their order.
template <typename T>
struct JoinHeads {
  const float* x;
  T* y;
  std::int64_t positions, heads, groups, depth;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t d = i % depth, group = i / depth % groups;
    const std::int64_t position = i / (depth * groups) % positions, sample = i / (depth * groups * positions);
    const std::int64_t shared = heads / groups;
    float sum = 0;
    for (std::int64_t h = group * shared; h < (group + 1) * shared; ++h)
      sum += x[((sample * heads + h) * positions + position) * depth + d];
    y[i] = narrow<T>(sum);
  }
};

// The score of a key for the query of row (sample, head, query).
struct Scores {
  Sizes s;
  const float *products, *mask;  // mask may be null
  ASSAY_HD float at(std::int64_t row, std::int64_t key) const {
    return s.score(row, key, mask, [&] { return products[row * s.keys + key]; });
  }
};

template <typename T>
struct SoftmaxRow {
  Scores scores;
  T* weights;
  float* logsumexp;  // may be null
  ASSAY_TEAM void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t keys = scores.s.keys;
    float largest = -INFINITY, sum = 0;
    for (std::int64_t j = team.rank(); j < keys; j += team.size())
      largest = fmaxf(largest, scores.at(row, j));
    largest = team.max(largest);
    const bool hidden = largest == -INFINITY;  // every key
    const float base = hidden ? 0.0F : largest;
    for (std::int64_t j = team.rank(); j < keys; j += team.size()) sum += expf(scores.at(row, j) - base);
    sum = team.sum(sum);
    for (std::int64_t j = team.rank(); j < keys; j += team.size())
      weights[row * keys + j] = narrow<T>(hidden ? 0.0F : expf(scores.at(row, j) - base) / sum);
    if (team.rank() == 0 && logsumexp != nullptr) logsumexp[row] = hidden ? -INFINITY : base + logf(sum);
  }
};

// The weight of a score in a row with this logarithm of its sum.
ASSAY_HD inline float weight_of(float score, float logsumexp) {
  return logsumexp == -INFINITY ? 0.0F : expf(score - logsumexp);
}

// The weights of a row again, and scale times the gradients of its scores.
template <typename T>
struct SlopeRow {
  Scores scores;
  const float *logsumexp, *dweights;
  T *weights, *slopes;
  ASSAY_HD float weight(std::int64_t row, std::int64_t key) const {
    return weight_of(scores.at(row, key), logsumexp[row]);
  }
  ASSAY_TEAM void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t keys = scores.s.keys, first = row * keys;
    float product = 0;
    for (std::int64_t j = team.rank(); j < keys; j += team.size())
      product += weight(row, j) * dweights[first + j];
    product = team.sum(product);
    for (std::int64_t j = team.rank(); j < keys; j += team.size()) {
      const float p = weight(row, j);
      weights[first + j] = narrow<T>(p);
      slopes[first + j] = narrow<T>(scores.s.scale * p * (dweights[first + j] - product));
    }
  }
};

// An attention with fewer FLOPs in its products is expected to be faster without the tensor cores than with the launches that
// move its heads. A thread of a team then has a few keys and elements of a head.
constexpr double max_small_flops = 1 << 27;
constexpr std::int64_t max_small_keys = 256, max_small_depth = 256;

bool is_small(const Request& request, const Sizes& s) {
  const double flops = 4 * static_cast<double>(s.of_scores()) * static_cast<double>(s.depth);
  return !request.context.bare && flops <= max_small_flops && s.keys <= max_small_keys &&
         s.depth <= max_small_depth;
}

// The operands of one head, and where its rows are.
template <typename T>
struct Heads {
  Sizes s;
  const T *q, *k, *v;
  const float* mask;  // may be null

  // Elements to the row of depth elements.
  ASSAY_HD std::int64_t query(std::int64_t row) const {
    return ((s.sample(row) * s.queries + s.query(row)) * s.heads + s.head(row)) * s.depth;
  }
  ASSAY_HD std::int64_t key(std::int64_t row, std::int64_t j) const {
    return ((s.sample(row) * s.keys + j) * s.groups + s.head(row) / (s.heads / s.groups)) * s.depth;
  }
  ASSAY_HD float product(const T* a, const T* b) const {
    float sum = 0;
    for (std::int64_t d = 0; d < s.depth; ++d) sum += widen(a[d]) * widen(b[d]);
    return sum;
  }
  // The score of key j for the query of row (sample, head, query).
  ASSAY_HD float score(std::int64_t row, std::int64_t j) const {
    return s.score(row, j, mask, [&] { return product(q + query(row), k + key(row, j)); });
  }
  // The row of `to`: the sum of the rows of its keys, weighted by what the team has written.
  ASSAY_TEAM void add_keys(const Team& team, std::int64_t row, const float* weights, const T* of_keys,
                           T* to) const {
    team.wait();
    for (std::int64_t d = team.rank(); d < s.depth; d += team.size()) {
      float sum = 0;
      for (std::int64_t j = 0; j < s.keys; ++j) sum += weights[j] * widen(of_keys[key(row, j) + d]);
      to[query(row) + d] = narrow<T>(sum);
    }
  }
};

// What the second product of bf16 data reads.
template <typename T>
ASSAY_HD float rounded(float x) {
  return widen(narrow<T>(x));
}

template <typename T>
struct SmallAttention {
  Heads<T> of;
  float* weights;  // (rows, keys)
  T* y;
  float* logsumexp;  // may be null
  ASSAY_TEAM void operator()(const Team& team, std::int64_t row) const {
    const Sizes& s = of.s;
    float* const own = weights + row * s.keys;
    float largest = -INFINITY, sum = 0;
    for (std::int64_t j = team.rank(); j < s.keys; j += team.size()) {
      own[j] = of.score(row, j);
      largest = fmaxf(largest, own[j]);
    }
    largest = team.max(largest);
    const bool hidden = largest == -INFINITY;  // every key
    const float base = hidden ? 0.0F : largest;
    for (std::int64_t j = team.rank(); j < s.keys; j += team.size()) sum += own[j] = expf(own[j] - base);
    sum = team.sum(sum);
    for (std::int64_t j = team.rank(); j < s.keys; j += team.size())
      own[j] = rounded<T>(hidden ? 0.0F : own[j] / sum);
    if (team.rank() == 0 && logsumexp != nullptr) logsumexp[row] = hidden ? -INFINITY : base + logf(sum);
    of.add_keys(team, row, own, of.v, y);
  }
};

// dq of a row, its weights again, and scale times the gradients of its scores.
template <typename T>
struct SmallQueryGradient {
  Heads<T> of;
  const T* dy;
  const float* logsumexp;
  float *weights, *slopes;  // (rows, keys)
  T* dq;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t row) const {
    const Sizes& s = of.s;
    float *const own = weights + row * s.keys, *const slope = slopes + row * s.keys;
    float product = 0;
    for (std::int64_t j = team.rank(); j < s.keys; j += team.size()) {
      own[j] = weight_of(of.score(row, j), logsumexp[row]);
      slope[j] = of.product(dy + of.query(row), of.v + of.key(row, j));
      product += own[j] * slope[j];
    }
    product = team.sum(product);
    for (std::int64_t j = team.rank(); j < s.keys; j += team.size()) {
      slope[j] = rounded<T>(s.scale * own[j] * (slope[j] - product));
      own[j] = rounded<T>(own[j]);
    }
    of.add_keys(team, row, slope, of.k, dq);
  }
};

// An element of dk and dv, (samples, keys, groups, depth): sums over the queries of the group's heads, in their order.
template <typename T>
struct SmallKeyGradient {
  Heads<T> of;
  const T* dy;
  const float *weights, *slopes;
  T *dk, *dv;
  ASSAY_HD void operator()(std::int64_t i) const {
    const Sizes& s = of.s;
    const std::int64_t d = i % s.depth, group = i / s.depth % s.groups, j = i / (s.depth * s.groups) % s.keys,
                       sample = i / (s.depth * s.groups * s.keys), shared = s.heads / s.groups;
    float of_key = 0, of_value = 0;
    for (std::int64_t head = group * shared; head < (group + 1) * shared; ++head) {
      for (std::int64_t query = 0; query < s.queries; ++query) {
        const std::int64_t row = (sample * s.heads + head) * s.queries + query;
        of_key += slopes[row * s.keys + j] * widen(of.q[of.query(row) + d]);
        of_value += weights[row * s.keys + j] * widen(dy[of.query(row) + d]);
      }
    }
    dk[i] = narrow<T>(of_key);
    dv[i] = narrow<T>(of_value);
  }
};

constexpr std::int64_t score_bytes = sizeof(float);
constexpr const char* small_name = "own:attention";

Lowered lower_small_attention(const Request& request, const Sizes& s) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  lowered.scratch_bytes = s.of_scores() * score_bytes;
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          for_each_row(stream, s.stacks() * s.queries, s.keys,
                       SmallAttention<T>{{s, at.in<T>(0), at.in<T>(1), at.in<T>(2), at.in<float>(3)},
                                         at.scratch_at<float>(0),
                                         at.out<T>(0),
                                         at.out<float>(1)});
        },
        small_name);
  });
  return lowered;
}

Lowered lower_small_attention_gradient(const Request& request, const Sizes& s) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  Scratch scratch;
  const std::int64_t weights = scratch.add(s.of_scores() * score_bytes),
                     slopes = scratch.add(s.of_scores() * score_bytes);
  lowered.scratch_bytes = scratch.bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          const Heads<T> heads{s, at.in<T>(0), at.in<T>(1), at.in<T>(2), at.in<float>(3)};
          auto *const p = at.scratch_at<float>(weights), *const ds = at.scratch_at<float>(slopes);
          for_each_row(stream, s.stacks() * s.queries, s.keys,
                       SmallQueryGradient<T>{heads, at.in<T>(6), at.in<float>(5), p, ds, at.out<T>(0)});
          for_each(stream, s.samples * s.keys * s.groups * s.depth,
                   SmallKeyGradient<T>{heads, at.in<T>(6), p, ds, at.out<T>(1), at.out<T>(2)});
        },
        small_name);
  });
  return lowered;
}

// For each sample and head: (m, n) in f32.
std::shared_ptr<Matmul> stacked(const Request& request, const Sizes& s, std::int64_t m, std::int64_t n,
                                std::int64_t k, bool ta, bool tb) {
  MatmulSpec spec = dense_product(request, m, n, k, ta, tb);
  spec.result = DType::f32;
  spec.batch = s.stacks();
  return request.context.device.matmul(spec);
}

// Operands q, k, v, mask; results y, logsumexp.
Lowered lower_attention(const Request& request) {
  const Sizes s(request);
  if (is_small(request, s)) return lower_small_attention(request, s);
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::int64_t size = size_of(request.inputs[0].dtype);
  const auto by_keys = stacked(request, s, s.queries, s.keys, s.depth, false, true);
  const auto by_values = stacked(request, s, s.queries, s.depth, s.keys, false, false);
  Scratch scratch;
  const std::int64_t q = scratch.add(s.of_queries() * size), k = scratch.add(s.of_keys() * size);
  const std::int64_t v = scratch.add(s.of_keys() * size), products = scratch.add(s.of_scores() * score_bytes);
  const std::int64_t weights = scratch.add(s.of_scores() * size),
                     y = scratch.add(s.of_queries() * score_bytes);
  const std::int64_t workspace =
      scratch.add(larger(by_keys->workspace_bytes(), by_values->workspace_bytes()));
  lowered.scratch_bytes = scratch.bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          const auto split = [&](std::size_t i, std::int64_t to, std::int64_t positions,
                                 std::int64_t groups) {
            for_each(stream, s.stacks() * positions * s.depth,
                     SplitHeads<T>{at.in<T>(i), at.scratch_at<T>(to), positions, s.heads, groups, s.depth});
          };
          split(0, q, s.queries, s.heads);
          split(1, k, s.keys, s.groups);
          split(2, v, s.keys, s.groups);
          auto* const work = at.scratch_at<std::byte>(workspace);
          by_keys->run(at.scratch_at<T>(q), at.scratch_at<T>(k), nullptr, at.scratch_at<float>(products),
                       work);
          for_each_row(stream, s.stacks() * s.queries, s.keys,
                       SoftmaxRow<T>{{s, at.scratch_at<float>(products), at.in<float>(3)},
                                     at.scratch_at<T>(weights),
                                     at.out<float>(1)});
          by_values->run(at.scratch_at<T>(weights), at.scratch_at<T>(v), nullptr, at.scratch_at<float>(y),
                         work);
          for_each(stream, s.of_queries(),
                   JoinHeads<T>{at.scratch_at<float>(y), at.out<T>(0), s.queries, s.heads, s.heads, s.depth});
        },
        "own:rows + " + by_keys->name());
  });
  return lowered;
}

// Operands q, k, v, mask, y, logsumexp, dy; results dq, dk, dv.
Lowered lower_attention_gradient(const Request& request) {
  const Sizes s(request);
  if (is_small(request, s)) return lower_small_attention_gradient(request, s);
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::int64_t size = size_of(request.inputs[0].dtype);
  const auto to_scores = stacked(request, s, s.queries, s.keys, s.depth, false, true);
  const auto over_keys = stacked(request, s, s.queries, s.depth, s.keys, false, false);
  const auto over_queries = stacked(request, s, s.keys, s.depth, s.queries, true, false);
  Scratch scratch;
  const std::int64_t q = scratch.add(s.of_queries() * size), k = scratch.add(s.of_keys() * size);
  const std::int64_t v = scratch.add(s.of_keys() * size), dy = scratch.add(s.of_queries() * size);
  const std::int64_t products = scratch.add(s.of_scores() * score_bytes);
  const std::int64_t dweights = scratch.add(s.of_scores() * score_bytes);
  const std::int64_t weights = scratch.add(s.of_scores() * size), slopes = scratch.add(s.of_scores() * size);
  const std::int64_t result = scratch.add(larger(s.of_queries(), s.of_keys()) * score_bytes);
  const std::int64_t workspace = scratch.add(larger(
      to_scores->workspace_bytes(), larger(over_keys->workspace_bytes(), over_queries->workspace_bytes())));
  lowered.scratch_bytes = scratch.bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          const auto split = [&](std::size_t i, std::int64_t to, std::int64_t positions,
                                 std::int64_t groups) {
            for_each(stream, s.stacks() * positions * s.depth,
                     SplitHeads<T>{at.in<T>(i), at.scratch_at<T>(to), positions, s.heads, groups, s.depth});
          };
          split(0, q, s.queries, s.heads);
          split(1, k, s.keys, s.groups);
          split(2, v, s.keys, s.groups);
          split(6, dy, s.queries, s.heads);
          auto* const work = at.scratch_at<std::byte>(workspace);
          to_scores->run(at.scratch_at<T>(q), at.scratch_at<T>(k), nullptr, at.scratch_at<float>(products),
                         work);
          to_scores->run(at.scratch_at<T>(dy), at.scratch_at<T>(v), nullptr, at.scratch_at<float>(dweights),
                         work);
          for_each_row(stream, s.stacks() * s.queries, s.keys,
                       SlopeRow<T>{{s, at.scratch_at<float>(products), at.in<float>(3)},
                                   at.in<float>(5),
                                   at.scratch_at<float>(dweights),
                                   at.scratch_at<T>(weights),
                                   at.scratch_at<T>(slopes)});
          const auto join = [&](std::size_t o, std::int64_t positions, std::int64_t groups) {
            for_each(stream, s.samples * positions * groups * s.depth,
                     JoinHeads<T>{at.scratch_at<float>(result), at.out<T>(o), positions, s.heads, groups,
                                  s.depth});
          };
          auto* const sums = at.scratch_at<float>(result);
          over_keys->run(at.scratch_at<T>(slopes), at.scratch_at<T>(k), nullptr, sums, work);
          join(0, s.queries, s.heads);
          over_queries->run(at.scratch_at<T>(slopes), at.scratch_at<T>(q), nullptr, sums, work);
          join(1, s.keys, s.groups);
          over_queries->run(at.scratch_at<T>(weights), at.scratch_at<T>(dy), nullptr, sums, work);
          join(2, s.keys, s.groups);
        },
        "own:rows + " + to_scores->name());
  });
  return lowered;
}

}  // namespace

std::span<const OpEntry> attention_ops() {
  static constexpr std::array entries{OpEntry{"attention", lower_attention},
                                      OpEntry{"attention_gradient", lower_attention_gradient}};
  return entries;
}

}  // namespace assay::cuda

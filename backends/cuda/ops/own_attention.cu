// Attention and its gradient by our own kernels. Small ones are a kernel each way, and the sums over the queries one more.
// Others keep every score in memory: stacks of products around a softmax. Heads are moved next to each other first, so that
// one call computes the products of all of them.
#include "backends/cuda/lowering.hpp"
#include "backends/cuda/own_attention.hpp"

namespace assay::cuda {
namespace {

struct Sizes {
  std::int64_t samples, queries, keys, heads, groups, depth;
  std::int64_t row_of_q, row_of_k, row_of_y;        // elements between the rows of two positions
  std::int64_t mask_sample, mask_head, mask_query;  // elements between; 0 where the mask has only one
  float scale;
  bool causal;

  explicit Sizes(const AttentionSpec& spec)
      : samples(spec.samples),
        queries(spec.queries),
        keys(spec.keys),
        heads(spec.heads),
        groups(spec.groups),
        depth(spec.depth),
        row_of_q(spec.row_of_q()),
        row_of_k(spec.row_of_k()),
        row_of_y(spec.row_of_y()),
        mask_sample(spec.mask_samples > 1 ? keys * spec.mask_queries * spec.mask_heads : 0),
        mask_head(spec.mask_heads > 1 ? keys * spec.mask_queries : 0),
        mask_query(spec.mask_queries > 1 ? keys : 0),
        scale(spec.scale),
        causal(spec.causal) {}
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

// y (samples, heads, positions, depth) from x (samples, positions, groups, depth), whose positions are `row` elements apart.
template <typename T>
struct SplitHeads {
  const T* x;
  T* y;
  std::int64_t positions, heads, groups, depth, row;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t d = i % depth, position = i / depth % positions;
    const std::int64_t head = i / (depth * positions) % heads, sample = i / (depth * positions * heads);
    const std::int64_t group = head / (heads / groups);
    y[i] = x[(sample * positions + position) * row + group * depth + d];
  }
};

// y (samples, positions, groups, depth), whose positions are `row` elements apart, from x (samples, heads, positions, depth),
// summed over the heads of a group in their order.
template <typename T>
struct JoinHeads {
  const float* x;
  T* y;
  std::int64_t positions, heads, groups, depth, row;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t d = i % depth, group = i / depth % groups;
    const std::int64_t position = i / (depth * groups) % positions, sample = i / (depth * groups * positions);
    const std::int64_t shared = heads / groups;
    float sum = 0;
    for (std::int64_t h = group * shared; h < (group + 1) * shared; ++h)
      sum += x[((sample * heads + h) * positions + position) * depth + d];
    y[(sample * positions + position) * row + group * depth + d] = narrow<T>(sum);
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

// The operands of one head, and where its rows are.
template <typename T>
struct Heads {
  Sizes s;
  const T *q, *k, *v;
  const float* mask;  // may be null

  // Elements to the row of depth elements: of q and dq, of y and dy, and of k and v.
  ASSAY_HD std::int64_t query(std::int64_t row) const {
    return (s.sample(row) * s.queries + s.query(row)) * s.row_of_q + s.head(row) * s.depth;
  }
  ASSAY_HD std::int64_t result(std::int64_t row) const {
    return (s.sample(row) * s.queries + s.query(row)) * s.row_of_y + s.head(row) * s.depth;
  }
  ASSAY_HD std::int64_t key(std::int64_t row, std::int64_t j) const {
    return (s.sample(row) * s.keys + j) * s.row_of_k + s.head(row) / (s.heads / s.groups) * s.depth;
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
  // `to`, of depth elements: the sum of the rows of the row's keys, weighted by what the team has written.
  ASSAY_TEAM void add_keys(const Team& team, std::int64_t row, const float* weights, const T* of_keys,
                           T* to) const {
    team.wait();
    for (std::int64_t d = team.rank(); d < s.depth; d += team.size()) {
      float sum = 0;
      for (std::int64_t j = 0; j < s.keys; ++j) sum += weights[j] * widen(of_keys[key(row, j) + d]);
      to[d] = narrow<T>(sum);
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
    of.add_keys(team, row, own, of.v, y + of.result(row));
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
      slope[j] = of.product(dy + of.result(row), of.v + of.key(row, j));
      product += own[j] * slope[j];
    }
    product = team.sum(product);
    for (std::int64_t j = team.rank(); j < s.keys; j += team.size()) {
      slope[j] = rounded<T>(s.scale * own[j] * (slope[j] - product));
      own[j] = rounded<T>(own[j]);
    }
    of.add_keys(team, row, slope, of.k, dq + of.query(row));
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
        of_value += weights[row * s.keys + j] * widen(dy[of.result(row) + d]);
      }
    }
    const std::int64_t place = (sample * s.keys + j) * s.row_of_k + group * s.depth + d;
    dk[place] = narrow<T>(of_key);
    dv[place] = narrow<T>(of_value);
  }
};

constexpr std::int64_t score_bytes = sizeof(float);

class SmallOwn final : public Attention {
 public:
  SmallOwn(const AttentionSpec& spec, Stream stream, std::string name)
      : spec_(spec), sizes_(spec), stream_(stream), name_(std::move(name)) {
    weights_ = scratch_.add(sizes_.of_scores() * score_bytes);
    if (spec.kind == AttentionSpec::Kind::gradient) slopes_ = scratch_.add(sizes_.of_scores() * score_bytes);
  }

  std::int64_t workspace_bytes() const override { return scratch_.bytes(); }
  std::string name() const override { return name_; }
  bool is_own() const override { return true; }
  void run(const AttentionOperands& at, void* workspace) override {
    with_type(spec_.operands, [&]<typename T>(T) {
      const auto part = [&](std::int64_t from) {
        return reinterpret_cast<float*>(static_cast<std::byte*>(workspace) + from);
      };
      const Heads<T> heads{sizes_, static_cast<const T*>(at.q), static_cast<const T*>(at.k),
                           static_cast<const T*>(at.v), at.mask};
      const std::int64_t rows = sizes_.stacks() * sizes_.queries;
      float* const p = part(weights_);
      if (spec_.kind == AttentionSpec::Kind::forward)
        return for_each_row(stream_, rows, sizes_.keys,
                            SmallAttention<T>{heads, p, static_cast<T*>(at.y), at.logsumexp});
      const auto* const dy = static_cast<const T*>(at.dy);
      float* const ds = part(slopes_);
      for_each_row(stream_, rows, sizes_.keys,
                   SmallQueryGradient<T>{heads, dy, at.logsumexp, p, ds, static_cast<T*>(at.dq)});
      for_each(stream_, sizes_.samples * sizes_.keys * sizes_.groups * sizes_.depth,
               SmallKeyGradient<T>{heads, dy, p, ds, static_cast<T*>(at.dk), static_cast<T*>(at.dv)});
    });
  }

 private:
  AttentionSpec spec_;
  Sizes sizes_;
  Stream stream_;
  std::string name_;
  Scratch scratch_;
  std::int64_t weights_ = 0, slopes_ = 0;
};

class StackedOwn final : public Attention {
 public:
  StackedOwn(const AttentionSpec& spec, Device& device, std::string name)
      : spec_(spec), s_(spec), stream_(device.stream()), name_(std::move(name)) {
    const bool gradient = spec.kind == AttentionSpec::Kind::gradient;
    const std::int64_t size = size_of(spec.operands);
    to_scores_ = stacked(device, s_.queries, s_.keys, s_.depth, false, true);
    over_keys_ = stacked(device, s_.queries, s_.depth, s_.keys, false, false);
    if (gradient) over_queries_ = stacked(device, s_.keys, s_.depth, s_.queries, true, false);
    q_ = scratch_.add(s_.of_queries() * size);
    k_ = scratch_.add(s_.of_keys() * size);
    v_ = scratch_.add(s_.of_keys() * size);
    products_ = scratch_.add(s_.of_scores() * score_bytes);
    weights_ = scratch_.add(s_.of_scores() * size);
    if (gradient) {
      dy_ = scratch_.add(s_.of_queries() * size);
      dweights_ = scratch_.add(s_.of_scores() * score_bytes);
      slopes_ = scratch_.add(s_.of_scores() * size);
    }
    sums_ = scratch_.add((gradient ? larger(s_.of_queries(), s_.of_keys()) : s_.of_queries()) * score_bytes);
    std::int64_t bytes = larger(to_scores_->workspace_bytes(), over_keys_->workspace_bytes());
    if (gradient) bytes = larger(bytes, over_queries_->workspace_bytes());
    workspace_ = scratch_.add(bytes);
    // The products may be measured; this is not.
    const std::string product = to_scores_->name();
    if (name_.empty()) name_ = "own:rows + " + product.substr(0, product.find(":measured"));
  }

  std::int64_t workspace_bytes() const override { return scratch_.bytes(); }
  std::string name() const override { return name_; }
  bool is_own() const override { return true; }
  void run(const AttentionOperands& at, void* workspace) override {
    base_ = static_cast<std::byte*>(workspace);
    with_type(spec_.operands, [&]<typename T>(T) {
      if (spec_.kind == AttentionSpec::Kind::forward)
        run_forward<T>(at);
      else
        run_gradient<T>(at);
    });
  }

 private:
  // For each sample and head: (m, n) in f32.
  std::shared_ptr<Matmul> stacked(Device& device, std::int64_t m, std::int64_t n, std::int64_t k, bool ta,
                                  bool tb) const {
    MatmulSpec spec = packed_product(m, n, k, ta, tb);
    spec.operands = spec_.operands;
    spec.tf32 = spec_.tf32;
    spec.bare = spec_.bare;
    spec.batch = s_.stacks();
    return device.matmul(spec);
  }

  template <typename T>
  T* part(std::int64_t from) const {
    return reinterpret_cast<T*>(base_ + from);
  }
  template <typename T>
  void split(const void* from, std::int64_t to, std::int64_t positions, std::int64_t groups,
             std::int64_t row) const {
    for_each(
        stream_, s_.stacks() * positions * s_.depth,
        SplitHeads<T>{static_cast<const T*>(from), part<T>(to), positions, s_.heads, groups, s_.depth, row});
  }
  template <typename T>
  void join(void* to, std::int64_t positions, std::int64_t groups, std::int64_t row) const {
    for_each(
        stream_, s_.samples * positions * groups * s_.depth,
        JoinHeads<T>{part<float>(sums_), static_cast<T*>(to), positions, s_.heads, groups, s_.depth, row});
  }
  // The product of two parts of the scratch.
  void multiply(Matmul& product, std::int64_t a, std::int64_t b, std::int64_t to) const {
    product.run(base_ + a, base_ + b, nullptr, base_ + to, base_ + workspace_);
  }

  template <typename T>
  void split_operands(const AttentionOperands& at) const {
    split<T>(at.q, q_, s_.queries, s_.heads, s_.row_of_q);
    split<T>(at.k, k_, s_.keys, s_.groups, s_.row_of_k);
    split<T>(at.v, v_, s_.keys, s_.groups, s_.row_of_k);
  }

  template <typename T>
  void run_forward(const AttentionOperands& at) const {
    split_operands<T>(at);
    multiply(*to_scores_, q_, k_, products_);
    for_each_row(stream_, s_.stacks() * s_.queries, s_.keys,
                 SoftmaxRow<T>{{s_, part<float>(products_), at.mask}, part<T>(weights_), at.logsumexp});
    multiply(*over_keys_, weights_, v_, sums_);
    join<T>(at.y, s_.queries, s_.heads, s_.row_of_y);
  }

  template <typename T>
  void run_gradient(const AttentionOperands& at) const {
    split_operands<T>(at);
    split<T>(at.dy, dy_, s_.queries, s_.heads, s_.row_of_y);
    multiply(*to_scores_, q_, k_, products_);
    multiply(*to_scores_, dy_, v_, dweights_);
    for_each_row(stream_, s_.stacks() * s_.queries, s_.keys,
                 SlopeRow<T>{{s_, part<float>(products_), at.mask},
                             at.logsumexp,
                             part<float>(dweights_),
                             part<T>(weights_),
                             part<T>(slopes_)});
    multiply(*over_keys_, slopes_, k_, sums_);
    join<T>(at.dq, s_.queries, s_.heads, s_.row_of_q);
    multiply(*over_queries_, slopes_, q_, sums_);
    join<T>(at.dk, s_.keys, s_.groups, s_.row_of_k);
    multiply(*over_queries_, weights_, dy_, sums_);
    join<T>(at.dv, s_.keys, s_.groups, s_.row_of_k);
  }

  AttentionSpec spec_;
  Sizes s_;
  Stream stream_;
  std::string name_;
  std::shared_ptr<Matmul> to_scores_, over_keys_, over_queries_;
  Scratch scratch_;
  std::int64_t q_ = 0, k_ = 0, v_ = 0, dy_ = 0, products_ = 0, weights_ = 0, dweights_ = 0, slopes_ = 0,
               sums_ = 0, workspace_ = 0;
  std::byte* base_ = nullptr;  // of the run's workspace
};

// An attention with fewer FLOPs in its products is expected to be faster without the tensor cores than with the launches that
// move its heads. A thread of a team then has a few keys and elements of a head.
constexpr double max_small_flops = 1 << 27;
constexpr std::int64_t max_small_keys = 256, max_small_depth = 256;

}  // namespace

bool is_small(const AttentionSpec& spec) {
  const Sizes s(spec);
  const double flops = 4 * static_cast<double>(s.of_scores()) * static_cast<double>(s.depth);
  return !spec.bare && flops <= max_small_flops && s.keys <= max_small_keys && s.depth <= max_small_depth;
}

std::shared_ptr<Attention> make_own_attention(const AttentionSpec& spec, Device& device, std::string name) {
  if (!is_small(spec)) return std::make_shared<StackedOwn>(spec, device, std::move(name));
  if (name.empty()) name = "own:attention";
  return std::make_shared<SmallOwn>(spec, device.stream(), std::move(name));
}

}  // namespace assay::cuda

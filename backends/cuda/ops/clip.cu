// The norm of all gradients together, and the clipping of all of them by it in one launch. No sum uses atomics: each tensor is
// summed in parts, and then one team adds the parts of all tensors.
#include <span>

#include "backends/cuda/joined.hpp"
#include "backends/cuda/kernels/long_sum.hpp"
#include "backends/cuda/kernels/tensor_table.hpp"
#include "backends/cuda/kernels/vector.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

struct ClippedTensor {
  const float* x;
  std::int64_t elements;
  std::int64_t first = 0;  // part, in the order of all tensors
};

struct SumSquares {
  float* sums;  // of each part
  TensorTable<ClippedTensor> tensors = {};
  ASSAY_TEAM void operator()(const Team& team, std::int64_t part) const {
    const ClippedTensor& tensor = tensors.at(part);
    const auto [first, end] = part_of(tensor, part);
    const float* const x = tensor.x;
    const float sum = team.sum(long_sum(team, first, end, [&](std::int64_t i) { return x[i] * x[i]; }));
    if (team.rank() == 0) sums[part] = sum;
  }
};

struct RootOfParts {
  const float* sums;
  float* norm;
  std::int64_t count;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t) const {
    const float sum = team.sum(long_sum(team, 0, count, [&](std::int64_t i) { return sums[i]; }));
    if (team.rank() == 0) *norm = sqrtf(sum);
  }
};

Lowered lower_norm(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  std::vector<std::int64_t> elements;
  std::int64_t parts = 0;
  for (std::size_t i = 0; i < request.node.inputs.size(); ++i) {
    lowered.inputs[i] = request.keep(i);
    elements.push_back(request.inputs[i].elements());
    parts += ceil_div(elements.back(), part_elements);
  }
  lowered.scratch_bytes = parts * static_cast<std::int64_t>(sizeof(float));
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [=](const Operands& at) {
        SumSquares all{at.scratch_at<float>(0)};
        const auto launch = [&] {
          for_each_row(stream, all.tensors.shares, part_elements, all);
          all.sums += all.tensors.shares;
        };
        for (std::size_t i = 0; i < elements.size(); ++i)
          all.tensors.add({at.in<float>(i), elements[i]}, ceil_div(elements[i], part_elements), launch);
        launch();
        for_each_row(stream, 1, parts, RootOfParts{at.scratch_at<float>(0), at.out<float>(0), parts});
      },
      "own:reduction");
  return lowered;
}

// What each gradient is multiplied by.
struct Share {
  const float* norm;
  float limit;
  ASSAY_HD float get() const {
    // A NaN is not below 1, but it must reach the result.
    const float share = limit / (*norm + 1e-6F);
    return share >= 1.0F ? 1.0F : share;
  }
};

// A thread's share of a tensor: one vector.
constexpr std::int64_t clip_share = Vector<float>::size;

struct ClippedGradient {
  const float* from;
  float* to;
  std::int64_t elements;
  bool aligned;
  std::int64_t first = 0;  // share, in the order of all tensors
};

struct ClipAll {
  Share by;
  TensorTable<ClippedGradient> tensors = {};
  ASSAY_HD void operator()(std::int64_t i) const {
    const ClippedGradient& t = tensors.at(i);
    const std::int64_t begin = (i - t.first) * clip_share, end = smaller(begin + clip_share, t.elements);
    const float share = by.get();
    if (!t.aligned || end - begin < clip_share) {
      for (std::int64_t e = begin; e < end; ++e) t.to[e] = t.from[e] * share;
      return;
    }
    Vector<float> gradient = load(t.from + begin);
    for (int v = 0; v < Vector<float>::size; ++v) gradient.of[v] *= share;
    store(t.to + begin, gradient);
  }
};

class Clipping final : public JoinableAs<Clipping> {
 public:
  Clipping(Stream stream, std::int64_t elements, float limit)
      : stream_(stream), elements_(elements), limit_(limit) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    from_ = static_cast<const float*>(inputs[0]);
    norm_ = static_cast<const float*>(inputs[1]);
    to_ = static_cast<float*>(outputs[0]);
  }
  std::string_view implementation() const override { return "own:pointwise"; }
  bool joins_one(const Clipping& other) const {
    return from_ != nullptr && other.from_ != nullptr && other.norm_ == norm_ && other.limit_ == limit_;
  }
  // In one launch, if a launch can name all.
  void run_all(std::span<const Clipping* const> all) const {
    ClipAll clip{{norm_, limit_}};
    const auto launch = [&] { for_each(stream_, clip.tensors.shares, clip); };
    for (const Clipping* one : all)
      clip.tensors.add({one->from_, one->to_, one->elements_, are_aligned(one->from_, one->to_)},
                       ceil_div(one->elements_, clip_share), launch);
    launch();
  }

 private:
  Stream stream_;
  std::int64_t elements_;
  float limit_;
  const float *from_ = nullptr, *norm_ = nullptr;
  float* to_ = nullptr;
};

Lowered lower_clip(const Request& request) {
  Lowered lowered = draft(request, request.follow({0}));
  lowered.in_place = in_place(request.node);
  lowered.kernel = std::make_unique<Clipping>(request.context.device.stream(), request.inputs[0].elements(),
                                              request.number("limit"));
  return lowered;
}

}  // namespace

std::span<const OpEntry> clip_ops() {
  static constexpr std::array entries{OpEntry{"global_norm", lower_norm}, OpEntry{"clip", lower_clip}};
  return entries;
}

}  // namespace assay::cuda

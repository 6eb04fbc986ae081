#include "backends/cuda/casts.hpp"

#include "backends/cuda/kernels/tensor_table.hpp"
#include "backends/cuda/kernels/vector.hpp"

namespace assay::cuda {
namespace {

// A thread's share: one vector of results.
constexpr std::int64_t cast_share = Vector<Bf16>::size;

struct OneTensor {
  const float* from;
  Bf16* to;
  std::int64_t elements;
  std::int64_t first = 0;  // share, in the order of all tensors
};

struct NarrowAll {
  TensorTable<OneTensor> tensors = {};
  ASSAY_HD void operator()(std::int64_t i) const {
    const OneTensor& t = tensors.at(i);
    const std::int64_t begin = (i - t.first) * cast_share, end = smaller(begin + cast_share, t.elements);
    if (end - begin < cast_share) {
      for (std::int64_t e = begin; e < end; ++e) t.to[e] = narrow<Bf16>(t.from[e]);
      return;
    }
    const Vector<float> a = load(t.from + begin), b = load(t.from + begin + Vector<float>::size);
    Vector<Bf16> result;
    for (int v = 0; v < Vector<float>::size; ++v) {
      result.of[v] = narrow<Bf16>(a.of[v]);
      result.of[v + Vector<float>::size] = narrow<Bf16>(b.of[v]);
    }
    store(t.to + begin, result);
  }
};

struct NarrowOne {
  const float* from;
  Bf16* to;
  ASSAY_HD void operator()(std::int64_t i) const { to[i] = narrow<Bf16>(from[i]); }
};

}  // namespace

void Narrowing::run_all(std::span<const Narrowing* const> all) const {
  NarrowAll casts;
  const auto launch = [&] { for_each(stream_, casts.tensors.shares, casts); };
  for (const Narrowing* one : all) {
    if (!are_aligned(one->from_, one->to_)) {
      for_each(stream_, one->elements_, NarrowOne{one->from_, one->to_});
      continue;
    }
    casts.tensors.add({one->from_, one->to_, one->elements_}, ceil_div(one->elements_, cast_share), launch);
  }
  launch();
}

}  // namespace assay::cuda

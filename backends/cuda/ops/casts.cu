#include "backends/cuda/casts.hpp"

#include "backends/cuda/kernels/tensor_table.hpp"
#include "backends/cuda/kernels/vector.hpp"

namespace assay::cuda {
namespace {

// A thread's share: one vector of narrow results.
constexpr std::int64_t copy_share = Vector<Bf16>::size;

struct CopiedTensor {
  const float* from;
  void* to;
  std::int64_t elements;
  bool narrow_result;      // bf16
  std::int64_t first = 0;  // share, in the order of all tensors
};

ASSAY_HD void copy_element(const CopiedTensor& t, std::int64_t i) {
  if (t.narrow_result) {
    static_cast<Bf16*>(t.to)[i] = narrow<Bf16>(t.from[i]);
  } else {
    static_cast<float*>(t.to)[i] = t.from[i];
  }
}

struct CopyAll {
  TensorTable<CopiedTensor> tensors = {};
  ASSAY_HD void operator()(std::int64_t i) const {
    const CopiedTensor& t = tensors.at(i);
    const std::int64_t begin = (i - t.first) * copy_share, end = smaller(begin + copy_share, t.elements);
    if (end - begin < copy_share) {
      for (std::int64_t e = begin; e < end; ++e) copy_element(t, e);
      return;
    }
    constexpr int half = Vector<float>::size;
    const Vector<float> a = load(t.from + begin), b = load(t.from + begin + half);
    if (!t.narrow_result) {
      float* const to = static_cast<float*>(t.to) + begin;
      store(to, a);
      store(to + half, b);
      return;
    }
    Vector<Bf16> result;
    for (int v = 0; v < half; ++v) {
      result.of[v] = narrow<Bf16>(a.of[v]);
      result.of[v + half] = narrow<Bf16>(b.of[v]);
    }
    store(static_cast<Bf16*>(t.to) + begin, result);
  }
};

struct CopyOne {
  CopiedTensor tensor;
  ASSAY_HD void operator()(std::int64_t i) const { copy_element(tensor, i); }
};

}  // namespace

void ParameterCopy::run_all(std::span<const ParameterCopy* const> all) const {
  CopyAll copies;
  const auto launch = [&] { for_each(stream_, copies.tensors.shares, copies); };
  for (const ParameterCopy* one : all) {
    auto* to = static_cast<std::byte*>(one->to_);
    for (std::size_t i = 0; i < one->elements_.size(); ++i) {
      const std::int64_t elements = one->elements_[i];
      const CopiedTensor tensor{static_cast<const float*>(one->from_[i]), to, elements,
                                one->dtype_ == DType::bf16};
      if (are_aligned(tensor.from, static_cast<const float*>(tensor.to))) {
        copies.tensors.add(tensor, ceil_div(elements, copy_share), launch);
      } else {
        for_each(stream_, elements, CopyOne{tensor});
      }
      to += elements * size_of(one->dtype_);
    }
  }
  launch();
}

}  // namespace assay::cuda

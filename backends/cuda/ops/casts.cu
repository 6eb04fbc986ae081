#include "backends/cuda/casts.hpp"

#include <algorithm>
#include <cstddef>

#include "backends/cuda/kernels/tensor_table.hpp"
#include "backends/cuda/kernels/vector.hpp"

namespace assay::cuda {
namespace {

// A thread's share: one vector of results.
constexpr std::int64_t cast_share = Vector<Bf16>::size;

struct OneTensor {
  const float* from;
  Bf16* to;
  std::int64_t elements, first;  // first: its first share, in the order of all tensors
};

struct NarrowAll {
  OneTensor of[max_tensors];
  int count;
  ASSAY_HD void operator()(std::int64_t i) const {
    const OneTensor& t = tensor_of(of, count, i);
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

void narrow_all(Stream stream, std::span<const Narrowing* const> all) {
  NarrowAll launch{};
  std::int64_t shares = 0;
  const auto flush = [&] {
    for_each(stream, shares, launch);
    launch.count = 0;
    shares = 0;
  };
  for (const Narrowing* one : all) {
    if (!are_aligned(one->from(), one->to())) {
      for_each(stream, one->elements(), NarrowOne{one->from(), one->to()});
      continue;
    }
    launch.of[launch.count++] = {one->from(), one->to(), one->elements(), shares};
    shares += ceil_div(one->elements(), cast_share);
    if (launch.count == max_tensors) flush();
  }
  flush();
}

struct Range {
  const std::byte *begin, *end;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};
Range read_by(const Narrowing& one) {
  const auto* begin = reinterpret_cast<const std::byte*>(one.from());
  return {begin, begin + one.elements() * static_cast<std::int64_t>(sizeof(float))};
}
Range written_by(const Narrowing& one) {
  const auto* begin = reinterpret_cast<const std::byte*>(one.to());
  return {begin, begin + one.elements() * static_cast<std::int64_t>(sizeof(Bf16))};
}

bool may_join(const std::vector<const Narrowing*>& group, const Narrowing& next) {
  return std::ranges::none_of(group, [&](const Narrowing* one) {
    return written_by(*one).overlaps(read_by(next)) || written_by(*one).overlaps(written_by(next)) ||
           read_by(*one).overlaps(written_by(next));
  });
}

}  // namespace

void Narrowing::run() {
  const Narrowing* const self = this;
  narrow_all(stream_, {&self, 1});
}

void Narrowings::run() { narrow_all(stream_, all_); }

void join_narrowings(Stream stream, std::vector<Scheduled>& kernels,
                     std::vector<std::unique_ptr<Kernel>>& owned) {
  std::vector<Scheduled> joined;
  for (std::size_t i = 0; i < kernels.size();) {
    std::vector<const Narrowing*> group;
    std::size_t end = i;
    for (; end < kernels.size(); ++end) {
      const auto* next = dynamic_cast<const Narrowing*>(kernels[end].kernel);
      // Those of a batch are bound later, and again for each slot.
      if (next == nullptr || next->from() == nullptr || next->to() == nullptr || !may_join(group, *next))
        break;
      group.push_back(next);
    }
    if (group.size() < 2) {
      joined.push_back(kernels[i++]);
      continue;
    }
    owned.push_back(std::make_unique<Narrowings>(stream, std::move(group)));
    joined.push_back({owned.back().get(), kernels[i].node, kernels[i].op});
    i = end;
  }
  kernels = std::move(joined);
}

}  // namespace assay::cuda

#include "backends/cuda/casts.hpp"

#include <memory>
#include <utility>
#include <vector>

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

// Many of them in one launch. Borrows them.
class Narrowings final : public Kernel {
 public:
  Narrowings(Stream stream, std::vector<const Narrowing*> all) : stream_(stream), all_(std::move(all)) {}
  void bind(std::span<void* const>, std::span<void* const>, void*) override {}  // its parts are bound
  std::string_view implementation() const override { return "own:multi_tensor"; }
  void run() override { narrow_all(stream_, all_); }

 private:
  Stream stream_;
  std::vector<const Narrowing*> all_;
};

}  // namespace

void Narrowing::run() {
  const Narrowing* const self = this;
  narrow_all(stream_, {&self, 1});
}

bool Narrowing::joins(const Joinable& other) const {
  const auto* const next = dynamic_cast<const Narrowing*>(&other);
  return next != nullptr && is_bound() && next->is_bound();
}

std::unique_ptr<Kernel> Narrowing::join(const std::vector<const Joinable*>& all) const {
  std::vector<const Narrowing*> each;
  for (const Joinable* one : all) each.push_back(dynamic_cast<const Narrowing*>(one));
  return std::make_unique<Narrowings>(stream_, std::move(each));
}

}  // namespace assay::cuda

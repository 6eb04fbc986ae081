#include "harness/engine/needs.hpp"

#include <algorithm>

namespace assay {
namespace {

bool overlap(const Bytes& a, const Bytes& b) {
  const auto begin_of_a = reinterpret_cast<std::uintptr_t>(a.begin),
             begin_of_b = reinterpret_cast<std::uintptr_t>(b.begin);
  return a.count > 0 && b.count > 0 && begin_of_a < begin_of_b + static_cast<std::uintptr_t>(b.count) &&
         begin_of_b < begin_of_a + static_cast<std::uintptr_t>(a.count);
}

bool any_overlap(const std::vector<Bytes>& some, const std::vector<Bytes>& others) {
  return std::ranges::any_of(some, [&](const Bytes& one) {
    return std::ranges::any_of(others, [&](const Bytes& other) { return overlap(one, other); });
  });
}

}  // namespace

bool must_wait(const Touched& later, const Touched& earlier) {
  return any_overlap(later.read, earlier.written) || any_overlap(later.written, earlier.written) ||
         any_overlap(later.written, earlier.read);
}

void Touched::add(const Touched& other) {
  read.insert(read.end(), other.read.begin(), other.read.end());
  written.insert(written.end(), other.written.begin(), other.written.end());
}

Needs needs_of(std::span<const Touched> kernels) {
  Needs needs(kernels.size());
  std::vector<std::vector<bool>> waits(kernels.size());  // for each earlier kernel, also by way of others
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    waits[k].resize(k);
    for (std::size_t i = k; i-- > 0;) {
      if (waits[k][i] || !must_wait(kernels[k], kernels[i])) continue;
      needs[k].push_back(i);
      waits[k][i] = true;
      for (std::size_t before = 0; before < i; ++before)
        waits[k][before] = waits[k][before] || waits[i][before];
    }
    std::ranges::reverse(needs[k]);
  }
  return needs;
}

}  // namespace assay

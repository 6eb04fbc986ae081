#include "backends/cuda/joined.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace assay::cuda {
namespace {

// The end of the neighbours from `first` on that can be one kernel.
std::size_t end_of_group(const std::vector<Scheduled>& kernels, std::size_t first) {
  const auto* const begun = dynamic_cast<const Joinable*>(kernels[first].kernel);
  std::size_t end = first + 1;
  if (begun == nullptr) return end;
  for (; end < kernels.size(); ++end) {
    const auto* const next = dynamic_cast<const Joinable*>(kernels[end].kernel);
    if (next == nullptr || !begun->joins(*next)) break;
    const std::span<const Scheduled> before(kernels.begin() + static_cast<std::ptrdiff_t>(first),
                                            kernels.begin() + static_cast<std::ptrdiff_t>(end));
    if (std::ranges::any_of(before, [&](const Scheduled& earlier) {
          return must_wait(kernels[end].touched, earlier.touched);
        }))
      break;
  }
  return end;
}

}  // namespace

void join_neighbours(std::vector<Scheduled>& kernels, std::vector<std::unique_ptr<Kernel>>& owned) {
  std::vector<Scheduled> joined;
  for (std::size_t i = 0; i < kernels.size();) {
    const std::size_t end = end_of_group(kernels, i);
    joined.push_back(kernels[i]);
    if (end - i > 1) {
      std::vector<const Joinable*> all;
      Touched touched;
      for (std::size_t k = i; k < end; ++k) {
        all.push_back(dynamic_cast<const Joinable*>(kernels[k].kernel));
        touched.add(kernels[k].touched);
      }
      owned.push_back(all.front()->join(all));
      joined.back().kernel = owned.back().get();
      joined.back().touched = std::move(touched);
    }
    i = end;
  }
  kernels = std::move(joined);
}

}  // namespace assay::cuda

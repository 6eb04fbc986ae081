// A thread's sum of many terms in f32. On the host a team is one thread, which adds all of them.
#pragma once

#include "backends/cuda/kernels/team.hpp"

namespace assay::cuda {

// The sum of term(i) for i = first + rank, first + rank + size, ... below `end`, in runs of 64 terms, so that the
// rounding of thousands of terms does not add up (Higham 2002, section 4.2: a blocked sum).
template <typename Term>
ASSAY_TEAM float long_sum(const Team& team, std::int64_t first, std::int64_t end, Term term) {
  constexpr int run = 64;
  float sum = 0;
  for (std::int64_t i = first + team.rank(); i < end;) {
    float part = 0;
    for (int n = 0; n < run && i < end; ++n, i += team.size()) part += term(i);
    sum += part;
  }
  return sum;
}

}  // namespace assay::cuda

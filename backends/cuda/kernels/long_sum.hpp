// A thread's sum of many terms in f32. On the host a team is one thread, which adds all of them.
#pragma once

#include "backends/cuda/kernels/team.hpp"

namespace assay::cuda {

// The sum of term(i) for i = first + rank, first + rank + size, ... below `end`, with the rounding of each addition
// added to the next term (Kahan's summation; Higham 2002, section 4.3), so that thousands of terms cost no digits.
template <typename Threads, typename Term>
ASSAY_TEAM float long_sum(const Threads& team, std::int64_t first, std::int64_t end, Term term) {
  float sum = 0, lost = 0;
  for (std::int64_t i = first + team.rank(); i < end; i += team.size()) {
    const float more = term(i) - lost;
    const float next = sum + more;
    lost = (next - sum) - more;
    sum = next;
  }
  return sum;
}

}  // namespace assay::cuda

#include "tests/simulation/u_test.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace assay::simulation {

double mann_whitney_p(std::span<const double> a, std::span<const double> b) {
  std::vector<std::pair<double, bool>> all;
  for (const double value : a) all.emplace_back(value, true);
  for (const double value : b) all.emplace_back(value, false);
  std::sort(all.begin(), all.end());
  const auto n1 = static_cast<double>(a.size()), n2 = static_cast<double>(b.size()), n = n1 + n2;
  double rank_sum = 0, ties = 0;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i;
    while (end < all.size() && all[end].first == all[i].first) ++end;
    const auto count = static_cast<double>(end - i);
    const double rank = 0.5 * static_cast<double>(i + 1 + end);  // of every one of the equal values
    for (; i < end; ++i) rank_sum += all[i].second ? rank : 0;
    ties += count * count * count - count;
  }
  const double u1 = rank_sum - n1 * (n1 + 1) / 2, u = std::max(u1, n1 * n2 - u1);
  const double deviation = std::sqrt(n1 * n2 / 12 * (n + 1 - ties / (n * (n - 1))));
  if (!(deviation > 0)) return 1;
  const double z = (u - n1 * n2 / 2 - 0.5) / deviation;
  return std::min(1.0, std::erfc(z / std::sqrt(2.0)));
}

}  // namespace assay::simulation

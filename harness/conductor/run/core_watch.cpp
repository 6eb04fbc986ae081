#include "harness/conductor/run/core_watch.hpp"

#include <algorithm>
#include <utility>

namespace assay {
namespace {

// Between 1.4 (clocks that fall with the number of busy cores) and 2 (two loops on one core).
constexpr double shares = 1.5;

}  // namespace

std::optional<double> CoreWatch::measure(const std::vector<int>& processors) {
  const std::optional<double> slowdown = means_.slowdown(processors);
  if (slowdown) {
    const auto [lowest, is_first] = lowest_.try_emplace(processors, *slowdown);
    if (!is_first) lowest->second = std::min(lowest->second, *slowdown);
  }
  return slowdown;
}

void CoreWatch::before_run(const std::vector<int>& processors, bool may_wait) {
  const auto known = lowest_.find(processors);
  const bool is_first = known == lowest_.end();
  const bool never_apart = !is_first && known->second > shares;
  const Seconds pause(0.05);
  Seconds left(!may_wait || never_apart ? 0 : is_first ? 10 : 3);
  before_ = measure(processors);
  while (before_ && *before_ > shares && left > Seconds(0) && means_.pause(pause)) {
    left -= pause;
    before_ = measure(processors);
  }
}

std::optional<CoreSharing> CoreWatch::after_run(const std::vector<int>& processors) {
  const std::optional<double> before = std::exchange(before_, std::nullopt);
  const std::optional<double> after = measure(processors);
  if (!before || !after) return std::nullopt;
  return CoreSharing{.before = *before, .after = *after, .lowest = lowest_.at(processors)};
}

bool had_shared_core(const CoreSharing& sharing) {
  return sharing.lowest <= shares && std::max(sharing.before, sharing.after) > shares;
}

}  // namespace assay

#include "harness/conductor/fork/core_watch.hpp"

#include <algorithm>
#include <utility>

#include "harness/report/core_placement.hpp"

namespace assay {
namespace {

constexpr CoreWatch::Seconds most(10), least(0.5), pause_between(0.05);

}  // namespace

CoreWatch::CoreWatch(Means means) : means_(std::move(means)) {}

std::optional<CoreReading> CoreWatch::read(const std::vector<int>& processors) {
  const std::optional<CoreReading> reading = means_.read(processors);
  if (reading)
    known_.try_emplace(processors, Known{.patience = most}).first->second.readings.push_back(*reading);
  return reading;
}

void CoreWatch::before_run(const std::vector<int>& processors, bool may_wait) {
  before_ = read(processors);
  if (!before_) return;
  Known& known = known_.at(processors);
  const CoreReading usual = usual_of(known.readings);
  const auto is_worse = [&] { return before_ && is_worse_placed(*before_, usual); };
  Seconds left = may_wait ? known.patience : Seconds(0);
  const bool waits = is_worse() && left > Seconds(0);
  while (is_worse() && left > Seconds(0) && means_.pause(pause_between)) {
    left -= pause_between;
    before_ = means_.read(processors);
  }
  if (waits) known.patience = is_worse() ? std::max(least, known.patience / 2) : most;
}

std::optional<CorePlacement> CoreWatch::after_run(const std::vector<int>& processors) {
  const std::optional<CoreReading> before = std::exchange(before_, std::nullopt);
  const std::optional<CoreReading> after = read(processors);
  if (!before || !after) return std::nullopt;
  return CorePlacement{.before = *before, .after = *after};
}

}  // namespace assay

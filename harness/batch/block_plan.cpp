#include "harness/batch/block_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace assay {
namespace {

constexpr double steady_within = 0.10;  // of two blocks' time per step
constexpr double patience = 4;          // times min_seconds

}  // namespace

BlockPlan::BlockPlan(const ClockRequest& request, std::int64_t rows, std::vector<std::int64_t> epoch_steps,
                     std::vector<std::int64_t> evaluation_steps)
    : request_(request),
      rows_(rows),
      epoch_steps_(std::move(epoch_steps)),
      evaluation_steps_(std::move(evaluation_steps)) {
  // Nothing to evaluate before the first epoch.
  evaluation_ = request_.epochs == 0 ? 0 : evaluation_steps_.size();
}

std::int64_t BlockPlan::rows_needed(const ClockRequest& request,
                                    const std::vector<std::int64_t>& epoch_steps) {
  if (request.kind == ClockKind::epochs)
    return std::accumulate(epoch_steps.begin(), epoch_steps.end(), std::int64_t{0});
  return 2 * (request.warm_up.min_steps + request.steps.value_or(request.blocks));
}

PlannedBlock BlockPlan::next() {
  current_ = request_.kind == ClockKind::steps ? next_of_steps() : next_of_epochs();
  current_.first_step = done_;
  return current_;
}

PlannedBlock BlockPlan::next_of_epochs() {
  if (evaluation_ < evaluation_steps_.size()) {
    const std::size_t i = evaluation_++;
    return {PlannedBlock::Kind::evaluate, epoch_, evaluation_steps_[i], 0, request_.evaluate[i]};
  }
  if (static_cast<std::size_t>(epoch_) == epoch_steps_.size()) return {};
  evaluation_ = 0;
  ++epoch_;
  return {PlannedBlock::Kind::timed, epoch_, epoch_steps_[static_cast<std::size_t>(epoch_ - 1)], 0, {}};
}

PlannedBlock BlockPlan::next_of_steps() {
  if (!warm_ && warm_up_is_over()) {
    warm_ = true;
    const std::int64_t left = rows_ - done_;
    if (request_.steps) {
      timed_left_ = std::min(*request_.steps, left);
      timed_size_ = block_size(timed_left_);
    } else {
      timed_size_ = block_size(std::max<std::int64_t>(left / request_.blocks, 1));
      timed_left_ = timed_size_ * request_.blocks;
    }
  }
  if (!warm_) {
    const std::int64_t steps =
        warm_up_blocks_ == 0 ? request_.warm_up.min_steps : block_size(rows_ / 2 - done_);
    return {PlannedBlock::Kind::warm_up, 0, steps, 0, {}};
  }
  if (timed_left_ == 0) return {};
  return {PlannedBlock::Kind::timed, 0, std::min(timed_size_, timed_left_), 0, {}};
}

bool BlockPlan::warm_up_is_over() {
  if (warm_up_blocks_ == 0) return false;
  if (request_.warm_up.min_seconds == 0) return true;
  if (warm_up_blocks_ >= 3) {
    const double larger = std::max(step_seconds_, step_seconds_before_);
    const double smaller = std::min(step_seconds_, step_seconds_before_);
    steady_ = larger <= smaller * (1 + steady_within);
  }
  if (warm_up_seconds_ >= patience * request_.warm_up.min_seconds || done_ >= rows_ / 2) return true;
  return warm_up_seconds_ >= request_.warm_up.min_seconds && steady_.value_or(false);
}

std::int64_t BlockPlan::block_size(std::int64_t max_steps) const {
  // A block that took no measurable time gives no estimate: make the next one ten times as large.
  const double wanted = step_seconds_ > 0 ? std::round(request_.block_seconds / fastest_step_seconds_)
                                          : static_cast<double>(done_) * 10;
  return static_cast<std::int64_t>(
      std::clamp(wanted, 1.0, static_cast<double>(std::max<std::int64_t>(max_steps, 1))));
}

void BlockPlan::ended(std::int64_t nanoseconds) {
  if (current_.kind == PlannedBlock::Kind::done || current_.kind == PlannedBlock::Kind::evaluate) return;
  done_ += current_.steps;
  if (current_.kind == PlannedBlock::Kind::timed) {
    timed_left_ -= request_.kind == ClockKind::steps ? current_.steps : 0;
    return;
  }
  const double seconds = static_cast<double>(std::max<std::int64_t>(nanoseconds, 0)) * 1e-9;
  ++warm_up_blocks_;
  warm_up_steps_ += current_.steps;
  warm_up_seconds_ += seconds;
  step_seconds_before_ = step_seconds_;
  step_seconds_ = seconds / static_cast<double>(current_.steps);
  if (step_seconds_ > 0) fastest_step_seconds_ = std::min(fastest_step_seconds_, step_seconds_);
}

std::int64_t BlockPlan::planned() const {
  if (request_.kind == ClockKind::epochs) return rows_needed(request_, epoch_steps_);
  if (warm_) return done_ + timed_left_;
  if (warm_up_blocks_ == 0) return request_.warm_up.min_steps + request_.steps.value_or(request_.blocks);
  const double left = std::max(request_.warm_up.min_seconds - warm_up_seconds_, 0.0);
  const double warming = step_seconds_ > 0 ? std::min(left / step_seconds_, static_cast<double>(rows_)) : 0;
  const std::int64_t size = block_size(std::max<std::int64_t>((rows_ - done_) / request_.blocks, 1));
  return done_ + static_cast<std::int64_t>(warming) + request_.steps.value_or(request_.blocks * size);
}

}  // namespace assay

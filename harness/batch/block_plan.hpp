// Chooses the next block: a pure function of the request and of the times of the previous blocks. The
// normative text is docs/reference/protocol.md, "Blocks"; this is its summary.
//
// A fork that counts steps:
//   warm-up  The first block has `min_steps` steps. Each later block is sized to take `block_seconds`.
//            The warm-up ends as soon as one of these holds:
//              - `min_seconds` is 0, after the first block;
//              - `min_seconds` were spent, and the last two blocks, the first block not being one of them,
//                agree within 10 % in time per step;
//              - 4 `min_seconds` were spent;
//              - half of the rows of the schedule are used.
//   timed    `blocks` blocks of equal size, which is chosen once, from the fastest warm-up block, so that each
//            takes `block_seconds`. With `steps`: exactly that many timed steps in blocks of that size; the
//            last block may be shorter.
//   No block goes past the rows of the schedule: timed blocks are made smaller to fit.
//
// A fork that counts epochs has no warm-up: each epoch is one timed block, followed by one evaluation of each
// requested split. Without epochs, there is one evaluation of each.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/request.hpp"

namespace assay {

struct PlannedBlock {
  enum class Kind { done, warm_up, timed, evaluate };
  Kind kind = Kind::done;
  int epoch = 0;
  std::int64_t steps = 0;
  std::int64_t first_step = 0;
  std::string split;  // of an evaluation
};

class BlockPlan {
 public:
  // `rows`: of the schedule, at least the number that is_possible() returns. `epoch_steps`: steps of each
  // epoch. `evaluation_steps`: of each split of request.evaluate. Both are for a fork that counts epochs.
  BlockPlan(const ClockRequest& request, std::int64_t rows, std::vector<std::int64_t> epoch_steps = {},
            std::vector<std::int64_t> evaluation_steps = {});

  // The minimum number of schedule rows for a request.
  static std::int64_t rows_needed(const ClockRequest& request, const std::vector<std::int64_t>& epoch_steps);

  // Call ended() after each block that it returns, before the next call.
  PlannedBlock next();
  void ended(std::int64_t nanoseconds);

  std::int64_t done() const { return done_; }  // steps, evaluations not counted
  std::int64_t planned() const;                // an estimate until the warm-up is over
  std::int64_t warm_up_steps() const { return warm_up_steps_; }
  double warm_up_seconds() const { return warm_up_seconds_; }
  // Nothing during the warm-up, and if steadiness was not requested or could not be determined.
  std::optional<bool> steady() const { return steady_; }

 private:
  PlannedBlock next_of_steps();
  PlannedBlock next_of_epochs();
  bool warm_up_is_over();
  std::int64_t block_size(std::int64_t max_steps) const;

  ClockRequest request_;
  std::int64_t rows_;
  std::vector<std::int64_t> epoch_steps_, evaluation_steps_;
  PlannedBlock current_;
  std::int64_t done_ = 0;
  // steps
  bool warm_ = false;
  std::int64_t warm_up_blocks_ = 0, warm_up_steps_ = 0;
  double warm_up_seconds_ = 0;
  double step_seconds_ = 0, step_seconds_before_ = 0;  // of the last two warm-up blocks
  // Decides the size of a block: one disturbed warm-up block must not make all timed blocks short.
  double fastest_step_seconds_ = std::numeric_limits<double>::infinity();
  std::optional<bool> steady_;
  std::int64_t timed_size_ = 0, timed_left_ = 0;  // steps
  // epochs
  int epoch_ = 0;
  std::size_t evaluation_ = 0;  // index of the epoch's next evaluation
};

}  // namespace assay

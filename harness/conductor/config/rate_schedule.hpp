// The learning rate of each step of a training run, written in one or two words. The normative text is
// docs/reference/protocol.md, "The learning rate"; this is its summary. s: steps done before this step; e =
// floor(s / steps per epoch): epochs done before it (both are 0 for the first step).
//
//   constant                  base
//   step:81x0.1:121x0.01      base;  0.1 base from e = 81 on;  0.01 base from e = 121 on
//   every:10x0.9              base 0.9^floor(e / 10)
//   cosine:200                base (1 + cos(pi min(s / S, 1))) / 2,  S the number of steps in 200 epochs
//                             (Loshchilov & Hutter 2017, without restarts); `cosine` without a number uses
//                             the epochs of the run
//   decay:1e-6                base / (1 + 1e-6 s), the argument `decay` of Keras's optimizers up to 2.2
//   warmup:5+<one of these>   the rate of the other schedule times min((s + 1) / W, 1),  W the number of
//                             steps in 5 epochs (Goyal et al. 2017): it rises linearly and is the full rate
//                             from the W-th step on; the epochs of the other schedule count from the start of
//                             the run
//
// Keras's examples write `epoch > 80`, where epoch counts from 0: that means after 81 epochs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

class RateSchedule {
 public:
  RateSchedule() = default;  // constant
  // Throws ConfigError with the error in the text and the valid forms.
  static RateSchedule parse(std::string_view text);

  // The canonical text: parse() returns the same schedule, and equal schedules have equal texts.
  std::string text() const;
  // True for `cosine` without a number: it needs the number of epochs of the run.
  bool lacks_epochs() const { return kind_ == Kind::cosine && epochs_ == 0; }
  // The same schedule with that number of epochs if it lacks one.
  RateSchedule over(std::int64_t epochs) const;

  // steps_per_epoch: at least 1. Precondition: not lacks_epochs().
  double rate(double base, std::int64_t steps_done, std::int64_t steps_per_epoch) const;

 private:
  enum class Kind { constant, step, every, cosine, decay };
  struct Boundary {
    std::int64_t epochs = 0;
    double factor = 1;
  };

  double factor(std::int64_t steps_done, std::int64_t steps_per_epoch) const;

  Kind kind_ = Kind::constant;
  std::vector<Boundary> boundaries_;  // of step and every
  std::int64_t epochs_ = 0;           // of cosine
  double decay_ = 0;
  double warm_up_epochs_ = 0;
};

}  // namespace assay

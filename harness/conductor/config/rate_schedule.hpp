// The learning rate over the steps of a training run, in a word or two. With s steps and e whole epochs done
// before a step (both 0 for the first one), and a base rate:
//
//   constant                   base
//   step:81x0.1:121x0.01       base, times 0.1 once 81 epochs are done, times 0.01 once 121 are: factors are
//   of
//                              the base, not of each other. Keras's examples say `epoch > 80` of an epoch
//                              counted from 0, which is 81 done
//   every:10x0.9               base 0.9^floor(e / 10)
//   cosine:200                 base (1 + cos(pi min(s / S, 1))) / 2 with S the steps of 200 epochs
//   (Loshchilov &
//                              Hutter 2017, without restarts); alone, `cosine` is over the epochs of the run
//   decay:1e-6                 base / (1 + 1e-6 s): the argument `decay` of Keras's optimizers up to 2.2
//   warmup:5+<one of these>    times min((s + 1) / W, 1) with W the steps of 5 epochs: linear, and at the
//   whole
//                              rate with the W-th step (Goyal et al. 2017); the other keeps its own epochs
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

class RateSchedule {
 public:
  RateSchedule() = default;  // constant
  // Throws ConfigError saying what is wrong with the text and which forms there are.
  static RateSchedule parse(std::string_view text);

  // Reads back as the same schedule; two texts of one schedule give one.
  std::string text() const;
  // `cosine` alone: it means something only where a number of epochs is run.
  bool lacks_epochs() const { return kind_ == Kind::cosine && epochs_ == 0; }
  // The same schedule with that number of epochs where it lacks one.
  RateSchedule over(std::int64_t epochs) const;

  // steps_per_epoch: at least 1. Not while lacks_epochs().
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

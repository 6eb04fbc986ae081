// Mean cross-entropy and accuracy of logits, in double.
#pragma once

#include <cstdint>
#include <span>

namespace assay {

class Evaluator {
 public:
  explicit Evaluator(std::int64_t classes) : classes_(classes) {}

  // logits: (labels.size(), classes). Rows with label -1 are skipped. The class is the arg max; the lowest
  // index wins a tie. A row with a NaN counts as wrong and makes the loss NaN.
  void add(const float* logits, std::span<const std::int32_t> labels);
  void reset() { samples_ = correct_ = 0, loss_ = 0; }

  std::int64_t samples() const { return samples_; }
  double accuracy() const {
    return samples_ == 0 ? 0 : static_cast<double>(correct_) / static_cast<double>(samples_);
  }
  double loss() const { return samples_ == 0 ? 0 : loss_ / static_cast<double>(samples_); }

 private:
  std::int64_t classes_;
  std::int64_t samples_ = 0;
  std::int64_t correct_ = 0;
  double loss_ = 0;
};

}  // namespace assay

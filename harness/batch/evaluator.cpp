#include "harness/batch/evaluator.hpp"

#include <cmath>

namespace assay {

void Evaluator::add(const float* logits, std::span<const std::int32_t> labels) {
  for (const std::int32_t label : labels) {
    const float* row = logits;
    logits += classes_;
    if (label < 0) continue;
    std::int64_t best = 0;
    bool is_nan = std::isnan(row[0]);
    for (std::int64_t c = 1; c < classes_; ++c) {
      is_nan = is_nan || std::isnan(row[c]);
      if (row[c] > row[best]) best = c;
    }
    // log(sum exp x) = m + log(sum exp(x - m)): no term overflows and one of them is 1.
    const double top = row[best];
    double sum = 0;
    for (std::int64_t c = 0; c < classes_; ++c) sum += std::exp(static_cast<double>(row[c]) - top);
    loss_ += top + std::log(sum) - static_cast<double>(row[label]);
    if (!is_nan && best == label) ++correct_;
    ++samples_;
  }
}

}  // namespace assay

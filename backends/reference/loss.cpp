// Softmax cross-entropy, row by row.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

template <typename T>
Body<T> softmax_cross_entropy(const Context& context) {
  const std::int64_t batch = context.in(0)[0], classes = context.in(0)[1];
  const bool save = context.wants(1);
  const auto run = [=](const Call<T>& call) {
    T total = 0;
    for (std::int64_t n = 0; n < batch; ++n) {
      const T* logits = call.in(0) + n * classes;
      const T largest = *std::max_element(logits, logits + classes);
      T sum = 0;
      for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
      const std::int32_t label = call.integers(1)[n];
      const bool known = label >= 0 && label < classes;
      total += known ? std::log(sum) + largest - logits[label] : std::numeric_limits<T>::quiet_NaN();
      if (!save) continue;
      for (std::int64_t c = 0; c < classes; ++c) {
        call.out(1)[n * classes + c] = std::exp(logits[c] - largest) / sum;
      }
    }
    call.out(0)[0] = total / static_cast<T>(batch);
  };
  return {run};
}

template <typename T>
Body<T> softmax_cross_entropy_gradient(const Context& context) {
  const std::int64_t batch = context.in(0)[0], classes = context.in(0)[1];
  const bool scaled = context.has_input(2);
  const auto run = [=](const Call<T>& call) {
    const T scale = (scaled ? call.in(2)[0] : T(1)) / static_cast<T>(batch);
    for (std::int64_t n = 0; n < batch; ++n) {
      for (std::int64_t c = 0; c < classes; ++c) {
        const T one = call.integers(1)[n] == c ? T(1) : T(0);
        call.out(0)[n * classes + c] = (call.in(0)[n * classes + c] - one) * scale;
      }
    }
  };
  return {run};
}

}  // namespace

std::span<const OpEntry> loss_ops() {
  static constexpr std::array entries{
      OpEntry{"softmax_cross_entropy", softmax_cross_entropy<float>, softmax_cross_entropy<double>},
      OpEntry{"softmax_cross_entropy_gradient", softmax_cross_entropy_gradient<float>,
              softmax_cross_entropy_gradient<double>}};
  return entries;
}

}  // namespace assay::reference

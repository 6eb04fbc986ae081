// Softmax cross-entropy, row by row.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

struct Labels {
  std::int64_t rows, classes;
  bool ignores;
  std::int64_t ignored;

  explicit Labels(const Context& context)
      : rows(element_count(context.in(1))),
        classes(context.in(0).back()),
        ignores(context.node.attributes.has("ignored")),
        ignored(context.node.attributes.get_or("ignored", std::int64_t{0})) {}
  bool counts(std::int32_t label) const { return !ignores || label != ignored; }
  // How many labels count; at least 1, so that a mean over none is 0.
  std::int64_t counted(const std::int32_t* labels) const {
    const auto found = std::count_if(labels, labels + rows, [this](std::int32_t l) { return counts(l); });
    return std::max<std::int64_t>(1, found);
  }
};

template <typename T>
Body<T> softmax_cross_entropy(const Context& context) {
  const Labels rule(context);
  const std::int64_t batch = rule.rows, classes = rule.classes;
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
      if (rule.counts(label))
        total += known ? std::log(sum) + largest - logits[label] : std::numeric_limits<T>::quiet_NaN();
      if (!save) continue;
      for (std::int64_t c = 0; c < classes; ++c) {
        call.out(1)[n * classes + c] = std::exp(logits[c] - largest) / sum;
      }
    }
    call.out(0)[0] = total / static_cast<T>(rule.counted(call.integers(1)));
  };
  return {run};
}

template <typename T>
Body<T> softmax_cross_entropy_gradient(const Context& context) {
  const Labels rule(context);
  const std::int64_t batch = rule.rows, classes = rule.classes;
  const bool scaled = context.has_input(2);
  const auto run = [=](const Call<T>& call) {
    const T whole = (scaled ? call.in(2)[0] : T(1)) / static_cast<T>(rule.counted(call.integers(1)));
    for (std::int64_t n = 0; n < batch; ++n) {
      const T scale = rule.counts(call.integers(1)[n]) ? whole : T(0);
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

// Softmax cross-entropy over rows, the mean over the labels that count in a fixed order, and its gradient.
#include "backends/cuda/kernels/labels.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

struct RowLoss {
  const float* logits;
  const std::int32_t* labels;
  float *losses, *probabilities;  // probabilities may be null
  std::int64_t classes, ignored;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t row) const {
    const float* x = logits + row * classes;
    float largest = -INFINITY, sum = 0;
    for (std::int64_t c = team.rank(); c < classes; c += team.size()) largest = fmaxf(largest, x[c]);
    largest = team.max(largest);
    for (std::int64_t c = team.rank(); c < classes; c += team.size()) sum += expf(x[c] - largest);
    sum = team.sum(sum);
    if (probabilities != nullptr) {
      for (std::int64_t c = team.rank(); c < classes; c += team.size())
        probabilities[row * classes + c] = expf(x[c] - largest) / sum;
    }
    if (team.rank() != 0) return;
    const std::int32_t label = labels[row];
    losses[row] = label == ignored                ? 0.0F
                  : label >= 0 && label < classes ? logf(sum) + largest - x[label]
                                                  : NAN;
  }
};

struct Gradient {
  const float* probabilities;
  const std::int32_t* labels;
  const float* dloss;    // may be null
  const float* counted;  // null if all labels count
  float* dlogits;
  std::int64_t rows, classes, ignored;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int32_t label = labels[i / classes];
    const float scale =
        (dloss == nullptr ? 1.0F : *dloss) / (counted == nullptr ? static_cast<float>(rows) : *counted);
    const float one = label == i % classes ? 1.0F : 0.0F;
    dlogits[i] = label == ignored ? 0.0F : (probabilities[i] - one) * scale;
  }
};

Lowered lower_loss(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const RowsOfTensor logits(request.in(0));
  const std::int64_t ignored = ignored_label(request.node);
  lowered.scratch_bytes = logits.rows * static_cast<std::int64_t>(sizeof(float));
  lowered.kernel = make_kernel(
      [stream, logits, ignored](const Operands& at) {
        auto* const losses = at.scratch_at<float>(0);
        const auto* const labels = at.in<std::int32_t>(1);
        for_each_row(stream, logits.rows, logits.columns,
                     RowLoss{at.in<float>(0), labels, losses, at.out<float>(1), logits.columns, ignored});
        for_each_row(stream, 1, logits.rows,
                     MeanOfLabels{losses, labels, at.out<float>(0), logits.rows, ignored});
      },
      "own:rows");
  return lowered;
}

Lowered lower_loss_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const RowsOfTensor logits(request.in(0));
  const std::int64_t ignored = ignored_label(request.node);
  if (ignored != no_label) lowered.scratch_bytes = static_cast<std::int64_t>(sizeof(float));
  lowered.kernel = make_kernel(
      [stream, logits, ignored](const Operands& at) {
        auto* const counted = ignored == no_label ? nullptr : at.scratch_at<float>(0);
        const auto* const labels = at.in<std::int32_t>(1);
        if (counted != nullptr)
          for_each_row(stream, 1, logits.rows, CountLabels{labels, counted, logits.rows, ignored});
        for_each(stream, logits.rows * logits.columns,
                 Gradient{at.in<float>(0), labels, at.in<float>(2), counted, at.out<float>(0), logits.rows,
                          logits.columns, ignored});
      },
      "own:pointwise");
  return lowered;
}

}  // namespace

std::span<const OpEntry> loss_ops() {
  static constexpr std::array entries{OpEntry{"softmax_cross_entropy", lower_loss},
                                      OpEntry{"softmax_cross_entropy_gradient", lower_loss_gradient}};
  return entries;
}

}  // namespace assay::cuda

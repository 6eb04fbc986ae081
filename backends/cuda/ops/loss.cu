// Softmax cross-entropy over rows, the mean over the batch in a fixed order, and its gradient.
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

struct RowLoss {
  const float* logits;
  const std::int32_t* labels;
  float *losses, *probabilities;  // probabilities may be null
  std::int64_t classes;
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
    losses[row] = label >= 0 && label < classes ? logf(sum) + largest - x[label] : NAN;
  }
};

struct Mean {
  const float* values;
  float* mean;
  std::int64_t count;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t) const {
    float sum = 0;
    for (std::int64_t i = team.rank(); i < count; i += team.size()) sum += values[i];
    sum = team.sum(sum);
    if (team.rank() == 0) *mean = sum / static_cast<float>(count);
  }
};

struct Gradient {
  const float* probabilities;
  const std::int32_t* labels;
  const float* dloss;  // may be null
  float* dlogits;
  std::int64_t batch, classes;
  ASSAY_HD void operator()(std::int64_t i) const {
    const float scale = (dloss == nullptr ? 1.0F : *dloss) / static_cast<float>(batch);
    const float one = labels[i / classes] == i % classes ? 1.0F : 0.0F;
    dlogits[i] = (probabilities[i] - one) * scale;
  }
};

Lowered lower_loss(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  const std::int64_t batch = request.in(0)[0], classes = request.in(0)[1];
  lowered.scratch_bytes = batch * static_cast<std::int64_t>(sizeof(float));
  lowered.kernel = make_kernel(
      [stream, batch, classes](const Operands& at) {
        auto* const losses = at.scratch_at<float>(0);
        for_each_row(stream, batch, classes,
                     RowLoss{at.in<float>(0), at.in<std::int32_t>(1), losses, at.out<float>(1), classes});
        for_each_row(stream, 1, batch, Mean{losses, at.out<float>(0), batch});
      },
      "own:rows");
  return lowered;
}

Lowered lower_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const std::int64_t batch = request.in(0)[0], classes = request.in(0)[1];
  lowered.kernel = make_kernel(
      [stream, batch, classes](const Operands& at) {
        for_each(stream, batch * classes,
                 Gradient{at.in<float>(0), at.in<std::int32_t>(1), at.in<float>(2), at.out<float>(0), batch,
                          classes});
      },
      "own:pointwise");
  return lowered;
}

}  // namespace

std::span<const OpEntry> loss_ops() {
  static constexpr std::array entries{OpEntry{"softmax_cross_entropy", lower_loss},
                                      OpEntry{"softmax_cross_entropy_gradient", lower_gradient}};
  return entries;
}

}  // namespace assay::cuda

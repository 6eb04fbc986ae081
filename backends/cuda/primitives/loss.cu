// Softmax with cross-entropy: cuDNN's softmax. It has no call that picks the element of a label: a kernel
// does that, and takes the logarithm of what it picks.
#include "backends/cuda/kernels/labels.hpp"
#include "backends/cuda/primitives/composition.hpp"
#include "backends/cuda/primitives/ops.hpp"

namespace assay::cuda::primitives {
namespace {

// -log(probability of the label) of each row; 0 where it is ignored, NaN where it is out of range. A probability that
// underflows is computed from that of the largest logit.
struct PickLabel {
  const float *logits, *probabilities;
  const std::int32_t* labels;
  float* losses;
  std::int64_t classes, ignored;
  ASSAY_HD void operator()(std::int64_t row) const {
    const float *x = logits + row * classes, *p = probabilities + row * classes;
    const std::int32_t label = labels[row];
    if (label == ignored || label < 0 || label >= classes) {
      losses[row] = label == ignored ? 0.0F : NAN;
      return;
    }
    constexpr float smallest_normal = 0x1p-126F;
    if (p[label] >= smallest_normal) {
      losses[row] = -logf(p[label]);
      return;
    }
    std::int64_t largest = 0;
    for (std::int64_t c = 1; c < classes; ++c) largest = x[c] > x[largest] ? c : largest;
    losses[row] = x[largest] - x[label] - logf(p[largest]);
  }
};

// Operands logits, labels; results loss, probabilities (optional).
Lowered lower_plain_loss(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const RowsOfTensor matrix(request.in(0));
  const std::int64_t batch = matrix.rows, classes = matrix.columns, ignored = ignored_label(request.node);
  const TensorSpec rows = packed(DType::f32, {batch, classes});
  const Term logits = steps.input(0, rows), labels = steps.input(1, dense(request.inputs[1]));
  const Term probabilities = request.has_output(1) ? steps.output(1, rows) : steps.temporary(rows);
  const Term losses = steps.temporary(packed(DType::f32, {batch, 1}));
  const Term loss = steps.output(0, dense(request.outputs[0]));
  steps.run(steps.calls().softmax(rows), {logits}, {probabilities});
  const Stream stream = request.context.device.stream();
  const auto pick = [stream, batch, classes, ignored](Places from, Places to, void*) {
    auto* const each = static_cast<float*>(to[0]);
    const auto* const numbers = static_cast<const std::int32_t*>(from[2]);
    for_each(stream, batch,
             PickLabel{static_cast<const float*>(from[0]), static_cast<const float*>(from[1]), numbers, each,
                       classes, ignored});
    for_each_row(stream, 1, batch, MeanOfLabels{each, numbers, static_cast<float*>(to[1]), batch, ignored});
  };
  steps.run({"own:rows", pick}, {logits, probabilities, labels}, {losses, loss});
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> loss_ops() {
  static constexpr std::array entries{OpEntry{"softmax_cross_entropy", lower_plain_loss}};
  return entries;
}

}  // namespace assay::cuda::primitives

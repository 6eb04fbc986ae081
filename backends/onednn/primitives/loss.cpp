// Softmax with cross-entropy: oneDNN's softmax. oneDNN has no primitive that picks the element of a label:
// two loops over the rows do that and take the logarithm of the element. (The logarithm of oneDNN's
// softmax_log is off by 3e-6.)
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/onednn/primitives/composition.hpp"
#include "backends/onednn/primitives/ops.hpp"

namespace assay::onednn::primitives {
namespace {

using dnnl::algorithm;

// The rows of logits, and which labels count.
struct Labelled {
  explicit Labelled(const Request& request)
      : classes(request.inputs[0].shape.back()),
        rows(request.inputs[0].elements() / classes),
        ignored(request.node.attributes.get_or("ignored", std::numeric_limits<std::int64_t>::min())) {}

  bool has(std::int32_t label) const { return label >= 0 && label < classes && label != ignored; }
  std::int64_t counted(const std::int32_t* labels) const {
    return rows - std::count(labels, labels + rows, ignored);
  }

  std::int64_t classes, rows, ignored;
};

// The mean of -log(probability of the label). A row whose label is out of range adds nothing.
class MeanOfLabels final : public Kernel {
 public:
  // probabilities: the result 1, or a part of the scratch.
  MeanOfLabels(const Request& request, const Term& probabilities)
      : labelled_(request), place_(probabilities) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    logits_ = static_cast<const float*>(inputs[0]);
    labels_ = static_cast<const std::int32_t*>(inputs[1]);
    loss_ = static_cast<float*>(outputs[0]);
    const void* probabilities = place_.place == Term::Place::output
                                    ? outputs[place_.index]
                                    : static_cast<const char*>(scratch) + place_.offset;
    probabilities_ = static_cast<const float*>(probabilities);
  }
  void run() override {
    double sum = 0;
    for (std::int64_t n = 0; n < labelled_.rows; ++n) {
      if (labelled_.has(labels_[n])) sum -= logarithm(n * labelled_.classes, labels_[n]);
    }
    const std::int64_t counted = labelled_.counted(labels_);
    *loss_ = counted == 0 ? 0.0F : static_cast<float>(sum / static_cast<double>(counted));
  }

 private:
  // The logarithm of a label's probability. If that underflows, it is computed from the largest logit's.
  double logarithm(std::int64_t row, std::int64_t label) const {
    const auto probability = static_cast<double>(probabilities_[row + label]);
    if (probability >= static_cast<double>(std::numeric_limits<float>::min())) return std::log(probability);
    const std::int64_t largest =
        std::max_element(logits_ + row, logits_ + row + labelled_.classes) - (logits_ + row);
    return static_cast<double>(logits_[row + label]) - static_cast<double>(logits_[row + largest]) +
           std::log(static_cast<double>(probabilities_[row + largest]));
  }

  Labelled labelled_;
  Term place_;
  const float* logits_ = nullptr;
  const std::int32_t* labels_ = nullptr;
  const float* probabilities_ = nullptr;
  float* loss_ = nullptr;
};

// Operands logits, labels; results loss, probabilities (optional).
Lowered lower_loss(const Request& request) {
  const Desc rows = row_major(as_matrix(request.inputs[0]));
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term probabilities = request.has_output(1) ? steps.output(1, rows) : steps.temporary(rows);
  const auto chosen = ASSAY_ONEDNN(
      dnnl::softmax_forward::primitive_desc(steps.engine(), dnnl::prop_kind::forward_inference,
                                            dnnl::algorithm::softmax_accurate, rows, rows, 1, attributes()));
  steps.run<dnnl::softmax_forward>(chosen,
                                   {{DNNL_ARG_SRC, steps.input(0, rows)}, {DNNL_ARG_DST, probabilities}});
  steps.run(std::make_unique<MeanOfLabels>(request, probabilities));
  steps.finish(lowered);
  return lowered;
}

// Subtracts the share of a row from the element of its label. If some labels are ignored, their number is
// known only now: then the rows are also scaled here, and those of ignored labels become zeros.
class TakeFromLabels final : public Kernel {
 public:
  TakeFromLabels(const Request& request, bool scales) : labelled_(request), scales_(scales) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    labels_ = static_cast<const std::int32_t*>(inputs[1]);
    dloss_ = inputs.size() > 2 ? static_cast<const float*>(inputs[2]) : nullptr;
    dlogits_ = static_cast<float*>(outputs[0]);
  }
  void run() override {
    const std::int64_t classes = labelled_.classes;
    const auto counted = static_cast<float>(std::max<std::int64_t>(1, labelled_.counted(labels_)));
    const float share = (dloss_ == nullptr ? 1.0F : *dloss_) / counted;
    for (std::int64_t n = 0; n < labelled_.rows; ++n) {
      float* const row = dlogits_ + n * classes;
      const float factor = labels_[n] == labelled_.ignored ? 0.0F : 1 / counted;
      if (scales_) std::transform(row, row + classes, row, [factor](float x) { return x * factor; });
      if (labelled_.has(labels_[n])) row[labels_[n]] -= share;
    }
  }

 private:
  Labelled labelled_;
  bool scales_;
  const std::int32_t* labels_ = nullptr;
  const float* dloss_ = nullptr;
  float* dlogits_ = nullptr;
};

// Operands probabilities, labels, dloss (optional).
Lowered lower_loss_gradient(const Request& request) {
  const TensorType matrix = as_matrix(request.inputs[0]);
  const bool ignores = request.node.attributes.has("ignored");
  const Desc rows = row_major(matrix);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term dlogits = steps.output(0, rows);
  steps.eltwise(algorithm::eltwise_linear, steps.input(0, rows), dlogits,
                ignores ? 1.0F : 1 / static_cast<float>(matrix.shape[0]));
  if (request.has_input(2))
    steps.binary(algorithm::binary_mul, dlogits, steps.input(2, row_major({DType::f32, {1, 1}})), dlogits);
  steps.run(std::make_unique<TakeFromLabels>(request, ignores));
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> loss_ops() {
  static constexpr std::array entries{OpEntry{"softmax_cross_entropy", lower_loss},
                                      OpEntry{"softmax_cross_entropy_gradient", lower_loss_gradient}};
  return entries;
}

}  // namespace assay::onednn::primitives

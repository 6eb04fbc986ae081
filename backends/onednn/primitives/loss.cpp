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

// The mean of -log(probability of the label). A row whose label is out of range adds nothing.
class MeanOfLabels final : public Kernel {
 public:
  // probabilities: the result 1, or a part of the scratch.
  MeanOfLabels(const Shape& shape, const Term& probabilities)
      : rows_(shape[0]), classes_(shape[1]), place_(probabilities) {}

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
    for (std::int64_t n = 0; n < rows_; ++n) {
      if (labels_[n] >= 0 && labels_[n] < classes_) sum -= logarithm(n * classes_, labels_[n]);
    }
    *loss_ = static_cast<float>(sum / static_cast<double>(rows_));
  }

 private:
  // The logarithm of a label's probability. If that underflows, it is computed from the largest logit's.
  double logarithm(std::int64_t row, std::int64_t label) const {
    const auto probability = static_cast<double>(probabilities_[row + label]);
    if (probability >= static_cast<double>(std::numeric_limits<float>::min())) return std::log(probability);
    const std::int64_t largest = std::max_element(logits_ + row, logits_ + row + classes_) - (logits_ + row);
    return static_cast<double>(logits_[row + label]) - static_cast<double>(logits_[row + largest]) +
           std::log(static_cast<double>(probabilities_[row + largest]));
  }

  std::int64_t rows_, classes_;
  Term place_;
  const float* logits_ = nullptr;
  const std::int32_t* labels_ = nullptr;
  const float* probabilities_ = nullptr;
  float* loss_ = nullptr;
};

// Operands logits, labels; results loss, probabilities (optional).
Lowered lower_forward(const Request& request) {
  const Desc rows = row_major(request.inputs[0]);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term probabilities = request.has_output(1) ? steps.output(1, rows) : steps.temporary(rows);
  const auto chosen = ASSAY_ONEDNN(
      dnnl::softmax_forward::primitive_desc(steps.engine(), dnnl::prop_kind::forward_inference,
                                            dnnl::algorithm::softmax_accurate, rows, rows, 1, attributes()));
  steps.run<dnnl::softmax_forward>(chosen,
                                   {{DNNL_ARG_SRC, steps.input(0, rows)}, {DNNL_ARG_DST, probabilities}});
  steps.run(std::make_unique<MeanOfLabels>(request.inputs[0].shape, probabilities));
  steps.finish(lowered);
  return lowered;
}

// Subtracts the share of a row from the element of its label.
class TakeFromLabels final : public Kernel {
 public:
  explicit TakeFromLabels(const Shape& shape) : rows_(shape[0]), classes_(shape[1]) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    labels_ = static_cast<const std::int32_t*>(inputs[1]);
    dloss_ = inputs.size() > 2 ? static_cast<const float*>(inputs[2]) : nullptr;
    dlogits_ = static_cast<float*>(outputs[0]);
  }
  void run() override {
    const float share = (dloss_ == nullptr ? 1.0F : *dloss_) / static_cast<float>(rows_);
    for (std::int64_t n = 0; n < rows_; ++n) {
      const std::int32_t label = labels_[n];
      if (label >= 0 && label < classes_) dlogits_[n * classes_ + label] -= share;
    }
  }

 private:
  std::int64_t rows_, classes_;
  const std::int32_t* labels_ = nullptr;
  const float* dloss_ = nullptr;
  float* dlogits_ = nullptr;
};

// Operands probabilities, labels, dloss (optional).
Lowered lower_gradient(const Request& request) {
  const Shape& shape = request.inputs[0].shape;
  const Desc rows = row_major(request.inputs[0]);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term dlogits = steps.output(0, rows);
  steps.eltwise(algorithm::eltwise_linear, steps.input(0, rows), dlogits, 1 / static_cast<float>(shape[0]));
  if (request.has_input(2))
    steps.binary(algorithm::binary_mul, dlogits, steps.input(2, row_major({DType::f32, {1, 1}})), dlogits);
  steps.run(std::make_unique<TakeFromLabels>(shape));
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> loss_ops() {
  static constexpr std::array entries{OpEntry{"softmax_cross_entropy", lower_forward},
                                      OpEntry{"softmax_cross_entropy_gradient", lower_gradient}};
  return entries;
}

}  // namespace assay::onednn::primitives

// Softmax with cross-entropy and its gradient: only a few thousand elements, so one thread does it without
// waking the others.
#include "backends/onednn/loops/loops.hpp"
#include "backends/onednn/lowering.hpp"

namespace assay::onednn {
namespace {

constexpr std::int64_t lanes = 16;  // rows that the loop processes together

class LossKernel final : public Kernel {
 public:
  LossKernel(std::int64_t rows, std::int64_t classes) : rows_(rows), classes_(classes) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    logits_ = static_cast<const float*>(inputs[0]);
    labels_ = static_cast<const std::int32_t*>(inputs[1]);
    loss_ = static_cast<float*>(outputs[0]);
    scratch_ = static_cast<float*>(scratch);
    const bool wanted = outputs.size() > 1 && outputs[1] != nullptr;
    probabilities_ = wanted ? static_cast<float*>(outputs[1]) : scratch_ + lanes * classes_;
  }

  void run() override {
    const double sum = loops().cross_entropy(logits_, labels_, rows_, classes_, probabilities_, scratch_);
    *loss_ = static_cast<float>(sum / static_cast<double>(rows_));
  }

 private:
  std::int64_t rows_, classes_;
  const float* logits_ = nullptr;
  const std::int32_t* labels_ = nullptr;
  float *loss_ = nullptr, *probabilities_ = nullptr, *scratch_ = nullptr;
};

Lowered lower_forward(const Request& request) {
  const Shape& shape = request.inputs[0].shape;
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(row_major(request.inputs[0]));
  lowered.inputs[1] = to_format(row_major(request.inputs[1]));
  lowered.outputs[0] = to_format(row_major(request.outputs[0]));
  if (request.has_output(1)) lowered.outputs[1] = to_format(row_major(request.outputs[1]));
  lowered.scratch_bytes = static_cast<std::int64_t>(sizeof(float)) *
                          (lanes * shape[1] + (request.has_output(1) ? 0 : shape[0] * shape[1]));
  lowered.kernel = std::make_unique<LossKernel>(shape[0], shape[1]);
  return lowered;
}

class GradientKernel final : public Kernel {
 public:
  GradientKernel(std::int64_t rows, std::int64_t classes) : rows_(rows), classes_(classes) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    probabilities_ = static_cast<const float*>(inputs[0]);
    labels_ = static_cast<const std::int32_t*>(inputs[1]);
    dloss_ = inputs.size() > 2 ? static_cast<const float*>(inputs[2]) : nullptr;
    dlogits_ = static_cast<float*>(outputs[0]);
  }

  void run() override {
    const float scale = (dloss_ == nullptr ? 1.0F : *dloss_) / static_cast<float>(rows_);
    for (std::int64_t i = 0; i < rows_ * classes_; ++i) dlogits_[i] = probabilities_[i] * scale;
    for (std::int64_t n = 0; n < rows_; ++n) {
      const std::int32_t label = labels_[n];
      if (label >= 0 && label < classes_) dlogits_[n * classes_ + label] -= scale;
    }
  }

 private:
  std::int64_t rows_, classes_;
  const float *probabilities_ = nullptr, *dloss_ = nullptr;
  const std::int32_t* labels_ = nullptr;
  float* dlogits_ = nullptr;
};

Lowered lower_gradient(const Request& request) {
  const Shape& shape = request.inputs[0].shape;
  Lowered lowered = draft(request);
  for (std::size_t i = 0; i < request.node.inputs.size(); ++i) {
    if (request.has_input(i)) lowered.inputs[i] = to_format(row_major(request.inputs[i]));
  }
  lowered.outputs[0] = to_format(row_major(request.outputs[0]));
  lowered.in_place = {{0, 0}};
  lowered.kernel = std::make_unique<GradientKernel>(shape[0], shape[1]);
  return lowered;
}

}  // namespace

std::span<const OpEntry> loss_ops() {
  static constexpr std::array entries{OpEntry{"softmax_cross_entropy", lower_forward},
                                      OpEntry{"softmax_cross_entropy_gradient", lower_gradient}};
  return entries;
}

}  // namespace assay::onednn

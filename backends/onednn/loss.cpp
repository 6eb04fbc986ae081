// Softmax with cross-entropy and its gradient. A few thousand elements are done by one thread without waking
// the others.
#include <omp.h>

#include <algorithm>
#include <limits>

#include "backends/onednn/loops/loops.hpp"
#include "backends/onednn/lowering.hpp"
#include "backends/onednn/parallel.hpp"

namespace assay::onednn {
namespace {

constexpr std::int64_t row_lanes = 16;  // rows that the loop processes together
constexpr std::int64_t grain_elements = 16384;

// The rows of logits and their labels.
struct Labelled {
  Labelled(const Node& node, const TensorType& logits)
      : classes(logits.shape.back()),
        rows(logits.elements() / classes),
        ignored(node.attributes.get_or("ignored", std::numeric_limits<std::int64_t>::min())) {}

  // Number of labels that are not ignored.
  std::int64_t counted(const std::int32_t* labels) const {
    return rows - std::count(labels, labels + rows, ignored);
  }
  // Rows that are worth a thread, a multiple of row_lanes.
  std::int64_t grain() const { return (grain_elements / classes + row_lanes) / row_lanes * row_lanes; }

  std::int64_t classes, rows, ignored;
};

// Operands logits, labels; results loss, probabilities.
class LossKernel final : public Kernel {
 public:
  LossKernel(const Request& request, int threads)
      : shape_(request.node, request.inputs[0]), threads_(threads), saved_(request.has_output(1)) {}

  // Per thread a sum and room for the loop; and the probabilities if no one wants them.
  std::int64_t scratch_bytes() const {
    return static_cast<std::int64_t>(sizeof(float)) *
           (threads_ * room() + (saved_ ? 0 : shape_.rows * shape_.classes));
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    logits_ = static_cast<const float*>(inputs[0]);
    labels_ = static_cast<const std::int32_t*>(inputs[1]);
    loss_ = static_cast<float*>(outputs[0]);
    scratch_ = static_cast<float*>(scratch);
    probabilities_ = saved_ ? static_cast<float*>(outputs[1]) : scratch_ + threads_ * room();
  }

  void run() override {
    for (int thread = 0; thread < threads_; ++thread) sum_of(thread) = 0;
    parallel(threads_, shape_.rows, shape_.grain(), [this](std::int64_t begin, std::int64_t end) {
      const int me = omp_get_thread_num();
      const std::int64_t at = begin * shape_.classes;
      sum_of(me) =
          loops().cross_entropy(logits_ + at, labels_ + begin, shape_.ignored, end - begin, shape_.classes,
                                probabilities_ + at, scratch_ + me * room() + row_lanes);
    });
    double sum = 0;
    for (int thread = 0; thread < threads_; ++thread) sum += sum_of(thread);
    const std::int64_t counted = shape_.counted(labels_);
    *loss_ = counted == 0 ? 0.0F : static_cast<float>(sum / static_cast<double>(counted));
  }

 private:
  std::int64_t room() const { return row_lanes + row_lanes * shape_.classes; }
  double& sum_of(int thread) const { return *reinterpret_cast<double*>(scratch_ + thread * room()); }

  Labelled shape_;
  int threads_;
  bool saved_;
  const float* logits_ = nullptr;
  const std::int32_t* labels_ = nullptr;
  float *loss_ = nullptr, *probabilities_ = nullptr, *scratch_ = nullptr;
};

// Operands probabilities, labels, dloss; result dlogits.
class LossGradientKernel final : public Kernel {
 public:
  LossGradientKernel(const Request& request, int threads)
      : shape_(request.node, request.inputs[0]), threads_(threads) {}
  std::int64_t scratch_bytes() const { return 0; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    probabilities_ = static_cast<const float*>(inputs[0]);
    labels_ = static_cast<const std::int32_t*>(inputs[1]);
    dloss_ = inputs.size() > 2 ? static_cast<const float*>(inputs[2]) : nullptr;
    dlogits_ = static_cast<float*>(outputs[0]);
  }

  void run() override {
    const std::int64_t classes = shape_.classes, counted = std::max<std::int64_t>(1, shape_.counted(labels_));
    const float scale = (dloss_ == nullptr ? 1.0F : *dloss_) / static_cast<float>(counted);
    parallel(threads_, shape_.rows, shape_.grain(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const std::int32_t label = labels_[n];
        float* const row = dlogits_ + n * classes;
        if (label == shape_.ignored) {
          std::fill_n(row, classes, 0.0F);
          continue;
        }
        loops().folds.scale(probabilities_ + n * classes, scale, row, classes);
        if (label >= 0 && label < classes) row[label] -= scale;
      }
    });
  }

 private:
  Labelled shape_;
  int threads_;
  const float *probabilities_ = nullptr, *dloss_ = nullptr;
  const std::int32_t* labels_ = nullptr;
  float* dlogits_ = nullptr;
};

template <typename KernelOf>
Lowered lower_loss(const Request& request) {
  Lowered lowered = row_major_draft(request);
  lowered.in_place = in_place(request.node);
  auto kernel = std::make_unique<KernelOf>(request, request.context.threads);
  lowered.scratch_bytes = kernel->scratch_bytes();
  lowered.kernel = std::move(kernel);
  return lowered;
}

}  // namespace

std::span<const OpEntry> loss_ops() {
  static constexpr std::array entries{
      OpEntry{"softmax_cross_entropy", lower_loss<LossKernel>},
      OpEntry{"softmax_cross_entropy_gradient", lower_loss<LossGradientKernel>}};
  return entries;
}

}  // namespace assay::onednn

// The norm of all gradients together, and their clipping by it. Gradients keep the formats of their
// parameters, whose padding is zero.
#include <algorithm>
#include <cmath>

#include "backends/onednn/blocks.hpp"
#include "backends/onednn/lowering.hpp"

namespace assay::onednn {
namespace {

// The sums of blocks, each by one thread, are added in order: the number of threads changes no bit.
class GradientNormKernel final : public Kernel {
 public:
  GradientNormKernel(int threads, const std::vector<Format>& formats) : threads_(threads) {
    for (std::size_t i = 0; i < formats.size(); ++i) {
      for (std::int64_t first = 0; first < floats_of(formats[i]); first += block_elements)
        blocks_.push_back({i, first, std::min(block_elements, floats_of(formats[i]) - first)});
    }
  }
  std::int64_t scratch_bytes() const { return static_cast<std::int64_t>(blocks_.size() * sizeof(double)); }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    gradients_.assign(inputs.begin(), inputs.end());
    norm_ = static_cast<float*>(outputs[0]);
    sums_ = static_cast<double*>(scratch);
  }
  void run() override {
    const auto count = static_cast<std::int64_t>(blocks_.size());
    parallel(threads_, count, 1, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Part& part = blocks_[index(i)];
        const float* from = static_cast<const float*>(gradients_[part.operand]) + part.first;
        sums_[i] = loops().folds.dot(from, from, part.elements);
      }
    });
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += sums_[i];
    *norm_ = static_cast<float>(std::sqrt(sum));
  }

 private:
  struct Part {
    std::size_t operand;
    std::int64_t first, elements;
  };

  int threads_;
  std::vector<Part> blocks_;
  std::vector<const void*> gradients_;
  float* norm_ = nullptr;
  double* sums_ = nullptr;
};

Lowered lower_norm(const Request& request) {
  Lowered lowered = draft(request);
  for (std::size_t i = 0; i < request.node.inputs.size(); ++i)
    lowered.inputs[i] =
        request.settled(i) ? request.offer.inputs[i] : to_format(row_major(request.inputs[i]));
  lowered.outputs[0] = to_format(row_major(request.outputs[0]));
  auto kernel = std::make_unique<GradientNormKernel>(request.context.threads, lowered.inputs);
  lowered.scratch_bytes = kernel->scratch_bytes();
  lowered.kernel = std::move(kernel);
  return lowered;
}

// Operands gradient, norm.
class ClipKernel final : public Kernel {
 public:
  ClipKernel(int threads, std::int64_t elements, double limit)
      : threads_(threads), elements_(elements), limit_(static_cast<float>(limit)) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    from_ = static_cast<const float*>(inputs[0]);
    norm_ = static_cast<const float*>(inputs[1]);
    to_ = static_cast<float*>(outputs[0]);
  }
  void run() override {
    // A NaN is not below 1, but it must reach the result.
    const float share = limit_ / (*norm_ + 1e-6F), factor = share >= 1.0F ? 1.0F : share;
    for_blocks(threads_, elements_, [this, factor](std::int64_t i, std::int64_t n) {
      loops().folds.scale(from_ + i, factor, to_ + i, n);
    });
  }

 private:
  int threads_;
  std::int64_t elements_;
  float limit_;
  const float *from_ = nullptr, *norm_ = nullptr;
  float* to_ = nullptr;
};

Lowered lower_clip(const Request& request) {
  Lowered lowered = draft(request);
  const bool reader = !request.settled(0) && request.offer.outputs[0].decided();
  const Format format = request.settled(0) ? request.offer.inputs[0]
                        : reader           ? request.offer.outputs[0]
                                           : to_format(row_major(request.inputs[0]));
  lowered.inputs[0] = lowered.outputs[0] = format;
  lowered.inputs[1] = to_format(row_major(request.inputs[1]));
  lowered.in_place = in_place(request.node);
  lowered.kernel = std::make_unique<ClipKernel>(request.context.threads, floats_of(format),
                                                request.node.attributes.number("limit"));
  return lowered;
}

}  // namespace

std::span<const OpEntry> clip_ops() {
  static constexpr std::array entries{OpEntry{"global_norm", lower_norm}, OpEntry{"clip", lower_clip}};
  return entries;
}

}  // namespace assay::onednn

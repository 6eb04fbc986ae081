// Adam on the touched rows of a table: the loop of adam, row by row.
#include <algorithm>
#include <array>

#include "backends/onednn/adam_step.hpp"
#include "backends/onednn/lowering.hpp"
#include "backends/onednn/parallel.hpp"

namespace assay::onednn {
namespace {

class LazyAdam final : public Kernel {
 public:
  explicit LazyAdam(const Request& request)
      : threads_(request.context.threads),
        rule_(request.node.attributes),
        rows_(request.inputs[1].shape[0]),
        kept_(request.inputs[2].shape[0]),
        width_(request.inputs[2].shape[1]) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    schedule_ = static_cast<const float*>(inputs[0]);
    values_ = static_cast<const float*>(inputs[2]);
    touched_ = static_cast<const std::int32_t*>(inputs[3]);
    constexpr std::array<std::size_t, 3> operands{1, 4, 5};
    for (std::size_t r = 0; r < operands.size(); ++r) {
      old_[r] = static_cast<const float*>(inputs[operands[r]]);
      new_[r] = static_cast<float*>(outputs[r]);
    }
  }
  void run() override {
    // The loop works in place; if the executor could not use one storage, the old values are copied
    // first.
    for (std::size_t r = 0; r < new_.size(); ++r) {
      if (old_[r] != new_[r]) std::copy_n(old_[r], rows_ * width_, new_[r]);
    }
    rule_.begin_step(static_cast<double>(schedule_[0]), static_cast<double>(schedule_[1]));
    parallel(threads_, kept_, 8, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) {
        const std::int64_t row = touched_[k];
        if (row < 0 || row >= rows_) continue;
        loops().adam(rule_.step, new_[0] + row * width_, values_ + k * width_, new_[1] + row * width_,
                     new_[2] + row * width_, width_);
      }
    });
  }

 private:
  int threads_;
  AdamRule rule_;
  std::int64_t rows_, kept_, width_;
  const float *schedule_ = nullptr, *values_ = nullptr;
  const std::int32_t* touched_ = nullptr;
  std::array<const float*, 3> old_{};
  std::array<float*, 3> new_{};
};

Lowered lower_lazy_adam(const Request& request) {
  Lowered lowered = draft(request);
  for (std::size_t i = 0; i < request.inputs.size(); ++i)
    lowered.inputs[i] = to_format(row_major(request.inputs[i]));
  for (std::size_t o = 0; o < request.outputs.size(); ++o)
    lowered.outputs[o] = to_format(row_major(request.outputs[o]));
  lowered.in_place = in_place(request.node);
  lowered.kernel = std::make_unique<LazyAdam>(request);
  return lowered;
}

}  // namespace

std::span<const OpEntry> lazy_adam_ops() {
  static constexpr std::array entries{OpEntry{"lazy_adam", lower_lazy_adam}};
  return entries;
}

}  // namespace assay::onednn

#include "backends/onednn/masked_kernel.hpp"

#include "backends/onednn/loops/loops.hpp"
#include "backends/onednn/parallel.hpp"

namespace assay::onednn {
namespace {

class MaskedKernel final : public Kernel {
 public:
  MaskedKernel(Context& context, std::unique_ptr<Kernel> inner, const Desc& desc, std::size_t mask)
      : context_(context),
        inner_(std::move(inner)),
        bf16_(desc.get_data_type() == dnnl::memory::data_type::bf16),
        elements_(static_cast<std::int64_t>(desc.get_size()) / (bf16_ ? 2 : 4)),
        index_(mask) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    inner_->bind(inputs, outputs, scratch);
    mask_ = inputs[index_];
    dx_ = outputs[0];
  }

  std::string_view implementation() const override { return inner_->implementation(); }

  void run() override {
    inner_->run();
    parallel(context_.threads, elements_, element_grain, [this](std::int64_t begin, std::int64_t end) {
      if (bf16_) {
        auto* dx = static_cast<std::uint16_t*>(dx_) + begin;
        loops().mask_bf16(static_cast<const std::uint16_t*>(mask_) + begin, dx, dx, end - begin);
      } else {
        auto* dx = static_cast<float*>(dx_) + begin;
        loops().mask_f32(static_cast<const float*>(mask_) + begin, dx, dx, end - begin);
      }
    });
  }

 private:
  Context& context_;
  std::unique_ptr<Kernel> inner_;
  bool bf16_;
  std::int64_t elements_;
  std::size_t index_;
  const void* mask_ = nullptr;
  void* dx_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> masked(Context& context, std::unique_ptr<Kernel> inner, const Desc& desc,
                               std::size_t mask) {
  return std::make_unique<MaskedKernel>(context, std::move(inner), desc, mask);
}

}  // namespace assay::onednn

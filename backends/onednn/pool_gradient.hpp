// The gradient of an average pool whose windows neither overlap nor cross the edge, and of the ReLU before
// it.
#pragma once

#include "backends/onednn/blocks.hpp"
#include "backends/onednn/lowering.hpp"

namespace assay::onednn {

// Made once per node. Divides the images among the threads.
class PoolGradient final : public Kernel {
 public:
  // dx and dy in nhwc or in blocks of channels.
  PoolGradient(int threads, const Desc& dx, const Desc& dy, std::int64_t kernel);

  // Whether bf16 images can be read row by row in place: short rows, and no cut block.
  static bool fits(const Desc& dx, const Desc& dy);

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override;
  void run() override;

  // For a reader that needs dx row by row instead of in memory: writes row h of image n, all channels, to
  // `to` as floats. Only if the channels are next to each other in dx.
  bool has_rows() const { return run_ == channels_; }
  void write_row(std::int64_t n, std::int64_t h, float* to) const { write_row(n, 0, h, to); }

 private:
  // An image tensor as blocks of channels that are next to each other. Strides in elements.
  struct Blocked {
    std::int64_t block = 0, image = 0, group = 0, row = 0, column = 0;

    explicit Blocked(const Desc& desc);
    std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t h) const {
      return n * image + c / block * group + c % block + h * row;
    }
  };
  void write_row(std::int64_t n, std::int64_t c, std::int64_t h, float* to) const;

  int threads_;
  Blocked dx_, dy_;
  std::int64_t kernel_, images_ = 0, channels_ = 0, rows_ = 0, windows_ = 0, run_ = 0;
  PoolRow row_{};
  DType dtype_;
  const void *dy_data_ = nullptr, *mask_ = nullptr;
  void* dx_data_ = nullptr;
};

// oneDNN's primitive, with dx in one of `candidates`. Operands dy, mask (optional); result dx.
Lowered average_pool_gradient(const Request& request, const std::vector<Desc>& candidates);

// Null if oneDNN must do it. dx has the format of the mask if there is one, else that of dy; dy may have any
// format. Operands dy, mask (optional); result dx.
std::unique_ptr<Kernel> fused_average_pool_gradient(const Request& request, Lowered& lowered);

}  // namespace assay::onednn

// A convolution of one channel, forward and its weight gradient. oneDNN's kernels pad the few channels of the
// result to 16 and spend more than half of their time on zeros.
#pragma once

#include <memory>
#include <optional>

#include "backends/onednn/lowering.hpp"
#include "backends/onednn/pool_gradient.hpp"

namespace assay::onednn {

// The convolution of `image` (N, 1, H, W) with a kernel (O, 1, P, Q), if the loops support it. `result` is in
// nhwc.
std::optional<FirstLayer> first_layer(const Request& request, const TensorType& image, const Shape& kernel,
                                      const TensorType& result);
// The offset of element (o, 0, p, q) of a weight, in elements, for each o, p and q in that order.
std::vector<std::int64_t> first_layer_offsets(const FirstLayer& shape, const Desc& weight);

// Operands x, weight, bias (optional); result y, after a ReLU if the node has that activation.
class FirstLayerForward final : public Kernel {
 public:
  FirstLayerForward(const Request& request, const FirstLayer& shape, const Desc& weight);

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override;
  void run() override;
  std::string_view implementation() const override { return "own:first"; }

 private:
  void spread_weight();
  void convolve(std::int64_t image, float* scratch) const;

  int threads_;
  FirstLayer shape_;
  bool narrow_, relu_;
  std::int64_t images_, columns_, scratch_floats_;
  std::vector<std::int64_t> offsets_;
  std::vector<float> taps_;     // the weight by tap and lane, then the bias by lane
  std::vector<float> scratch_;  // by thread: spread x, rows of y, a widened image
  const void *x_ = nullptr, *weight_ = nullptr;
  const float* bias_ = nullptr;
  void* y_ = nullptr;
};

// Operands x, dy; results dweight, bias_gradient (optional). Owns its scratch: see read_rows_of().
class FirstLayerGradient final : public Kernel {
 public:
  FirstLayerGradient(const Request& request, const FirstLayer& shape, const Desc& weight);

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override;
  void run() override;

  // If the kernel of `node` makes dy and nothing else reads it: from now on this kernel makes dy row by row,
  // and `pool` does not run. The planner may already have given the memory of pool's operands to other values
  // when this kernel runs. So the kernel writes to the arena, that is its results, only after it has read all
  // operands. False if this is not possible.
  bool read_rows_of(const PoolGradient& pool, std::string_view node);

 private:
  void add_images(std::int64_t begin, std::int64_t end, float* scratch);
  void finish();

  int threads_;
  FirstLayer shape_;
  bool narrow_;  // x and dy are bf16
  std::int64_t images_, columns_, scratch_floats_;
  std::string source_;                 // the node that makes dy only for this one; empty if others read it
  std::vector<std::int64_t> offsets_;  // of (o, p, q) in dweight
  std::size_t weight_bytes_;
  std::vector<float> scratch_;  // by thread: sums, bias sums, spread x, rows of dy, a widened image
  const PoolGradient* pool_ = nullptr;
  const void *x_ = nullptr, *dy_ = nullptr;
  float *dweight_ = nullptr, *dbias_ = nullptr;
};

// Null if oneDNN must do it.
std::unique_ptr<Kernel> first_layer_forward(const Request& request, Lowered& lowered);
std::unique_ptr<Kernel> first_layer_gradient(const Request& request, Lowered& lowered);

}  // namespace assay::onednn

// Our own loops. Each is compiled three times, for x86-64, AVX2 and AVX-512, and the worker chooses when it
// starts, so that one binary runs everywhere. Single-threaded: the callers divide the work.
#pragma once

#include <cstdint>

#include "backends/onednn/loops/curves.hpp"
#include "backends/onednn/loops/folds.hpp"
#include "backends/onednn/loops/row_norms.hpp"

namespace assay::onednn {

// A range of a parameter with its gradient and moments. All have the same length and are updated in place.
struct AdamStep {
  float beta1, beta2, rest1, rest2;  // rest: 1 - beta, rounded once
  float epsilon, weight_decay;
  float step_size;     // lr / (1 - beta1^t)
  float inverse_root;  // 1 / sqrt(1 - beta2^t)
  float shrink;        // lr * weight decay if that is decoupled; then weight_decay is 0
};
struct SgdStep {
  float momentum, weight_decay, learning_rate;
};
struct RmspropStep {
  float decay, rest, epsilon, weight_decay, learning_rate;
};

// A row of the gradient of an average pool whose windows do not overlap; channels are next to each other.
struct PoolRow {
  std::int64_t windows;    // in the row
  std::int64_t kernel;     // columns of a window
  std::int64_t columns;    // of dx; those past the last window become zero
  std::int64_t channels;   // next to each other
  std::int64_t dy_stride;  // elements from window to window
  std::int64_t dx_stride;  // elements from column to column, of dx and the mask
  float scale;
};

// A convolution of one channel, stride 1, no padding, over one image, and its weight gradient. The lanes of a
// vector are (pixel, channel of dy) pairs, so that dy is read in the order of nhwc; x is read from a copy
// that repeats each pixel once per channel ("spread"). The channels in the lanes repeat every `phases`
// vectors.
struct FirstLayer {
  std::int64_t kernel_rows, kernel_columns;  // kernel_columns 3 or 5
  std::int64_t channels;                     // of dy, 1 to 16
  std::int64_t phases;                       // channels / gcd(channels, 16): 1 or 3
  std::int64_t rows;                         // of dy
  std::int64_t x_rows, x_columns;
  std::int64_t dy_pitch;  // floats of a row of dy, zeros after the last pixel: a multiple of 16 * phases
  std::int64_t
      x_pitch;  // floats of a spread row: dy_pitch + kernel_columns * channels or more, a multiple of 16
};

struct Loops {
  const char* name;
  void (*adam)(const AdamStep&, float* p, const float* g, float* m, float* v, std::int64_t n);
  // m may be null if momentum is 0.
  void (*sgd)(const SgdStep&, float* p, const float* g, float* m, std::int64_t n);
  void (*rmsprop)(const RmspropStep&, float* p, const float* g, float* s, std::int64_t n);
  // dx = dy where mask > 0, else 0. dx may be dy or mask.
  void (*mask_f32)(const float* mask, const float* dy, float* dx, std::int64_t n);
  void (*mask_bf16)(const std::uint16_t* mask, const std::uint16_t* dy, std::uint16_t* dx, std::int64_t n);
  // y = x * scale where kept is not 0, else 0. y may be x.
  void (*dropout_f32)(const std::uint8_t* kept, const float* x, float scale, float* y, std::int64_t n);
  void (*dropout_bf16)(const std::uint8_t* kept, const std::uint16_t* x, float scale, std::uint16_t* y,
                       std::int64_t n);
  // mask may be null.
  void (*average_pool_gradient_row)(const PoolRow&, const float* dy, const float* mask, float* dx);
  // probabilities = softmax(logits) of rows x classes; the sum of -log(probability of the label). A row whose
  // label is out of range or `ignored` adds nothing. scratch: 16 * classes floats.
  double (*cross_entropy)(const float* logits, const std::int32_t* labels, std::int64_t ignored,
                          std::int64_t rows, std::int64_t classes, float* probabilities, float* scratch);
  // Null if the instruction set has no kernel. x: (x_rows, x_columns); spread: (x_rows, x_pitch).
  void (*spread)(const FirstLayer&, const float* x, float* spread);
  // y (rows, dy_pitch) = the convolution with taps (kernel_rows, kernel_columns, 16 * phases) plus a bias
  // (16 * phases) stored after the taps, at least 0 with `relu`. Square kernels.
  void (*first_layer)(const FirstLayer&, const float* spread, const float* taps, bool relu, float* y);
  // Adds the products by lane to sums (kernel_rows, kernel_columns, 16 * phases) and bias_sums (16 * phases).
  void (*first_layer_gradient)(const FirstLayer&, const float* spread, const float* dy, float* sums,
                               float* bias_sums);
  Folds folds;
  Curves curves;
  RowNorms row_norms;
};

// The loops of the best instruction set of this CPU.
const Loops& loops();
// Whether the CPU also multiplies pairs of bf16 (AVX-512 BF16).
bool multiplies_bf16();

extern const Loops loops_x86_64;
extern const Loops loops_avx2;
extern const Loops loops_avx512;

}  // namespace assay::onednn

#include <algorithm>

#include "backends/onednn/first_layer.hpp"
#include "backends/onednn/parallel.hpp"

namespace assay::onednn {
namespace {}  // namespace

FirstLayerForward::FirstLayerForward(const Request& request, const FirstLayer& shape, const Desc& weight)
    : threads_(request.context.threads),
      shape_(shape),
      narrow_(request.inputs[0].dtype == DType::bf16),
      relu_(request.relu()),
      images_(request.inputs[0].shape[0]),
      columns_(request.outputs[0].shape[3]),
      offsets_(first_layer_offsets(shape, weight)) {
  const std::int64_t taps = shape.kernel_rows * shape.kernel_columns;
  taps_.resize(static_cast<std::size_t>((taps + 1) * line_floats * shape.phases));
  scratch_floats_ = shape.x_rows * shape.x_pitch + shape.rows * shape.dy_pitch +
                    (narrow_ ? shape.x_rows * shape.x_columns : 0);
  scratch_.resize(static_cast<std::size_t>(scratch_floats_ * threads_));
}

void FirstLayerForward::bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) {
  x_ = inputs[0];
  weight_ = inputs[1];
  bias_ = inputs.size() > 2 ? static_cast<const float*>(inputs[2]) : nullptr;
  y_ = outputs[0];
}

void FirstLayerForward::run() {
  spread_weight();
  parallel(threads_, images_, 1, [this](std::int64_t begin, std::int64_t end) {
    const int me = omp_in_parallel() != 0 ? omp_get_thread_num() : 0;
    for (std::int64_t n = begin; n < end; ++n) convolve(n, scratch_.data() + me * scratch_floats_);
  });
}

void FirstLayerForward::spread_weight() {
  const std::int64_t taps = shape_.kernel_rows * shape_.kernel_columns, period = line_floats * shape_.phases;
  for (std::int64_t tap = 0; tap <= taps; ++tap) {
    for (std::int64_t l = 0; l < period; ++l) {
      const std::int64_t channel = l % shape_.channels;
      float value = 0;
      if (tap == taps) {
        if (bias_ != nullptr) value = bias_[channel];
      } else {
        const std::int64_t at = offsets_[static_cast<std::size_t>(channel * taps + tap)];
        if (narrow_) {
          loops().folds.widen(static_cast<const std::uint16_t*>(weight_) + at, &value, 1);
        } else {
          value = static_cast<const float*>(weight_)[at];
        }
      }
      taps_[static_cast<std::size_t>(tap * period + l)] = value;
    }
  }
}

void FirstLayerForward::convolve(std::int64_t n, float* scratch) const {
  const std::int64_t image = shape_.x_rows * shape_.x_columns, row = columns_ * shape_.channels;
  float* const rows = scratch + shape_.x_rows * shape_.x_pitch;
  float* const wide = rows + shape_.rows * shape_.dy_pitch;
  const float* x = wide;
  if (narrow_) {
    loops().folds.widen(static_cast<const std::uint16_t*>(x_) + n * image, wide, image);
  } else {
    x = static_cast<const float*>(x_) + n * image;
  }
  loops().spread(shape_, x, scratch);
  const bool fits = !narrow_ && row == shape_.dy_pitch;  // nothing after the last pixel of a row
  float* const y = fits ? static_cast<float*>(y_) + n * shape_.rows * row : rows;
  loops().first_layer(shape_, scratch, taps_.data(), relu_, y);
  for (std::int64_t h = 0; h < shape_.rows && !fits; ++h) {
    const std::int64_t to = (n * shape_.rows + h) * row;
    if (narrow_) {
      loops().folds.narrow(rows + h * shape_.dy_pitch, static_cast<std::uint16_t*>(y_) + to, row);
    } else {
      std::copy_n(rows + h * shape_.dy_pitch, row, static_cast<float*>(y_) + to);
    }
  }
}

std::unique_ptr<Kernel> first_layer_forward(const Request& request, Lowered& lowered) {
  const TensorType &x = request.inputs[0], &y = request.outputs[0];
  const auto shape = first_layer(request, x, request.inputs[1].shape, y);
  if (!shape || shape->kernel_rows != shape->kernel_columns) return nullptr;
  const Desc weight = request.settled(1) ? request.input_desc(1) : row_major(request.inputs[1]);
  lowered.inputs[0] = to_format(row_major(x));
  lowered.inputs[1] = to_format(weight);
  if (request.has_input(2)) lowered.inputs[2] = to_format(row_major(request.inputs[2]));
  lowered.outputs[0] = to_format(with_tag(y, Tag::nhwc));
  return std::make_unique<FirstLayerForward>(request, *shape, weight);
}

}  // namespace assay::onednn

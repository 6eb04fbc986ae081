#include "backends/onednn/pool_gradient.hpp"

#include <algorithm>
#include <cassert>

#include "backends/onednn/parallel.hpp"
#include "harness/graph/sliding_window.hpp"

namespace assay::onednn {
namespace {

bool is_blocked(const Desc& desc) {
  const Tag tag = image_tag(desc);
  return tag == Tag::nhwc || tag == Tag::nChw16c || tag == Tag::nChw8c;
}

std::int64_t block_of(const Desc& desc) {
  const auto blocks = desc.get_inner_blks();
  return blocks.empty() ? desc.get_dims()[1] : blocks[0];
}

}  // namespace

PoolGradient::Blocked::Blocked(const Desc& desc) {
  const auto strides = desc.get_strides();
  block = block_of(desc);
  image = strides[0];
  group = strides[1];  // of a block; not used in nhwc, which has one block
  row = strides[2];
  column = strides[3];
}

PoolGradient::PoolGradient(int threads, const Desc& dx, const Desc& dy, std::int64_t kernel)
    : threads_(threads),
      dx_(dx),
      dy_(dy),
      kernel_(kernel),
      dtype_(dx.get_data_type() == dnnl::memory::data_type::bf16 ? DType::bf16 : DType::f32) {
  const auto x = dx.get_dims(), y = dy.get_dims();
  images_ = x[0];
  // Padded channels are zero in dy, so they become zero in dx.
  channels_ = dx_.block == dy_.block ? dx.get_padded_dims()[1] : x[1];
  rows_ = x[2];
  windows_ = y[2];
  run_ = std::min({dx_.block, dy_.block, channels_});
  row_ = {y[3],
          kernel,
          x[3],
          run_,
          dy_.column,
          dx_.column,
          static_cast<float>(1.0 / static_cast<double>(kernel * kernel))};
}

void PoolGradient::bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) {
  dy_data_ = inputs[0];
  mask_ = inputs.size() > 1 ? inputs[1] : nullptr;
  dx_data_ = outputs[0];
}

void PoolGradient::run() {
  parallel(threads_, images_, 1, [this](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      for (std::int64_t c = 0; c < channels_; c += run_) {
        for (std::int64_t h = 0; h < rows_; ++h) {
          Block row;
          const std::int64_t to = dx_.at(n, c, h);
          write_row(n, c, h, row.target(dx_data_, dtype_, to));
          row.write(dx_data_, dtype_, to, row_.columns * dx_.column);
        }
      }
    }
  });
}

void PoolGradient::write_row(std::int64_t n, std::int64_t c, std::int64_t h, float* to) const {
  PoolRow row = row_;
  row.channels = std::min(run_, channels_ - c);
  const std::int64_t window = h / kernel_;
  if (window >= windows_) row.windows = 0;  // a row past the last window
  Block dy, mask;
  loops().average_pool_gradient_row(
      row, dy.read(dy_data_, dtype_, dy_.at(n, c, std::min(window, windows_ - 1)), row_.windows * dy_.column),
      mask_ == nullptr ? nullptr : mask.read(mask_, dtype_, dx_.at(n, c, h), row_.columns * dx_.column), to);
}

bool PoolGradient::fits(const Desc& dx, const Desc& dy) {
  const Blocked to(dx), from(dy);
  const bool whole = to.block == from.block || (to.block == dx.get_dims()[1] && to.block < from.block);
  return whole && to.row <= block_elements && from.row <= block_elements;
}

std::unique_ptr<Kernel> fused_average_pool_gradient(const Request& request, Lowered& lowered) {
  const TensorType &dy = request.inputs[0], &dx = request.outputs[0];
  const SlidingWindow window = pool_window(request.node.attributes);
  const std::int64_t kernel = window.rows.kernel;
  const WindowAxis side_by_side{.kernel = kernel, .stride = kernel};
  if (request.offer.plain || window != SlidingWindow{side_by_side, side_by_side}) return nullptr;
  const bool mask = request.has_input(1);
  Desc dx_desc, dy_desc = request.input_desc(0);
  if (mask && request.settled(1)) {
    dx_desc = request.input_desc(1);
  } else if (!dy_desc.is_zero() && image_tag(dy_desc) != Tag::undef) {
    dx_desc = with_tag(dx, image_tag(dy_desc));
  } else {
    return nullptr;
  }
  if (!is_blocked(dx_desc)) return nullptr;
  const bool exact = dx_desc.get_dims() == dx_desc.get_padded_dims();
  if (dy_desc.is_zero() || !is_blocked(dy_desc) || (!exact && block_of(dy_desc) != block_of(dx_desc))) {
    dy_desc = with_tag(dy, image_tag(dx_desc));
  }
  if (dx.dtype == DType::bf16 && !PoolGradient::fits(dx_desc, dy_desc)) return nullptr;
  lowered.inputs[0] = to_format(dy_desc);
  lowered.outputs[0] = to_format(dx_desc);
  if (mask) lowered.inputs[1] = lowered.outputs[0];
  return std::make_unique<PoolGradient>(request.context.threads, dx_desc, dy_desc, kernel);
}

}  // namespace assay::onednn

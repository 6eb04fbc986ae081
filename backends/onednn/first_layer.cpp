#include "backends/onednn/first_layer.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/onednn/parallel.hpp"
#include "harness/graph/sliding_window.hpp"

namespace assay::onednn {
namespace {

std::int64_t rounded(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// The offset of element `index`, in elements.
std::int64_t offset_of(const Desc& desc, std::array<std::int64_t, 4> index) {
  const auto strides = desc.get_strides(), blocks = desc.get_inner_blks(), axes = desc.get_inner_idxs();
  std::int64_t offset = 0, inner = 1;
  for (std::size_t i = blocks.size(); i-- > 0;) {
    auto& at = index[static_cast<std::size_t>(axes[i])];
    offset += at % blocks[i] * inner;
    at /= blocks[i];
    inner *= blocks[i];
  }
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

// The name of the node that makes a value for only one reader, else empty.
std::string private_source(const Graph& graph, ValueId value) {
  std::int64_t readers = 0;
  for (const Node& node : graph.nodes()) readers += std::ranges::count(node.inputs, value);
  const bool output = std::ranges::any_of(graph.outputs(), [=](const auto& o) { return o.value == value; });
  const NodeId producer = graph.value(value).producer;
  return readers == 1 && !output && producer != none ? graph.node(producer).name : "";
}

}  // namespace

std::vector<std::int64_t> first_layer_offsets(const FirstLayer& shape, const Desc& weight) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t o = 0; o < shape.channels; ++o) {
    for (std::int64_t p = 0; p < shape.kernel_rows; ++p) {
      for (std::int64_t q = 0; q < shape.kernel_columns; ++q)
        offsets.push_back(offset_of(weight, {o, 0, p, q}));
    }
  }
  return offsets;
}

FirstLayerGradient::FirstLayerGradient(const Request& request, const FirstLayer& shape, const Desc& weight)
    : threads_(request.context.threads),
      shape_(shape),
      narrow_(request.inputs[0].dtype == DType::bf16),
      images_(request.inputs[0].shape[0]),
      columns_(request.inputs[1].shape[3]),
      source_(private_source(request.graph, request.node.inputs[1])),
      offsets_(first_layer_offsets(shape, weight)),
      weight_bytes_(weight.get_size()) {
  const std::int64_t period = line_floats * shape.phases;
  scratch_floats_ = (shape.kernel_rows * shape.kernel_columns + 1) * period + shape.x_rows * shape.x_pitch +
                    shape.rows * shape.dy_pitch + (narrow_ ? shape.x_rows * shape.x_columns : 0);
  scratch_.resize(static_cast<std::size_t>(scratch_floats_ * threads_));
}

void FirstLayerGradient::bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) {
  x_ = inputs[0];
  dy_ = inputs[1];
  dweight_ = static_cast<float*>(outputs[0]);
  dbias_ = outputs.size() > 1 ? static_cast<float*>(outputs[1]) : nullptr;
}

bool FirstLayerGradient::read_rows_of(const PoolGradient& pool, std::string_view node) {
  if (source_.empty() || source_ != node || !pool.has_rows()) return false;
  pool_ = &pool;
  return true;
}

void FirstLayerGradient::run() {
  // The zeros after the last pixel of each row of dy are written once.
  const std::int64_t sums = (shape_.kernel_rows * shape_.kernel_columns + 1) * line_floats * shape_.phases;
  for (std::int64_t t = 0; t < threads_; ++t) std::fill_n(scratch_.begin() + t * scratch_floats_, sums, 0.0F);
  parallel(threads_, images_, 1, [this](std::int64_t begin, std::int64_t end) {
    const bool inside = omp_in_parallel() != 0;
    add_images(begin, end, scratch_.data() + (inside ? omp_get_thread_num() : 0) * scratch_floats_);
  });
  finish();
}

void FirstLayerGradient::add_images(std::int64_t begin, std::int64_t end, float* scratch) {
  const std::int64_t period = line_floats * shape_.phases;
  float* const bias = scratch + shape_.kernel_rows * shape_.kernel_columns * period;
  float* const x = bias + period;
  float* const dy = x + shape_.x_rows * shape_.x_pitch;
  float* const wide = dy + shape_.rows * shape_.dy_pitch;
  const std::int64_t row = columns_ * shape_.channels, image = shape_.x_rows * shape_.x_columns;
  // Elements of x or dy as floats: in place, or widened.
  const auto floats = [this](const void* data, std::int64_t from, std::int64_t n, float* to) -> const float* {
    if (!narrow_) return static_cast<const float*>(data) + from;
    loops().folds.widen(static_cast<const std::uint16_t*>(data) + from, to, n);
    return to;
  };
  for (std::int64_t n = begin; n < end; ++n) {
    loops().spread(shape_, floats(x_, n * image, image, wide), x);
    for (std::int64_t h = 0; h < shape_.rows; ++h) {
      float* const to = dy + h * shape_.dy_pitch;
      if (pool_ != nullptr) {
        pool_->write_row(n, h, to);
      } else {
        const float* from = floats(dy_, (n * shape_.rows + h) * row, row, to);
        if (from != to) std::copy_n(from, row, to);
      }
    }
    loops().first_layer_gradient(shape_, x, dy, scratch, bias);
  }
}

// Add the threads' sums in a fixed order, so that two runs give the same bits.
void FirstLayerGradient::finish() {
  const std::int64_t period = line_floats * shape_.phases, taps = shape_.kernel_rows * shape_.kernel_columns;
  std::memset(dweight_, 0, weight_bytes_);
  const auto sum = [&](std::int64_t tap, std::int64_t channel) {
    float total = 0;
    for (std::int64_t t = 0; t < threads_; ++t) {
      const float* from = scratch_.data() + t * scratch_floats_ + tap * period;
      for (std::int64_t l = channel; l < period; l += shape_.channels) total += from[l];
    }
    return total;
  };
  for (std::int64_t o = 0; o < shape_.channels; ++o) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      dweight_[offsets_[static_cast<std::size_t>(o * taps + tap)]] = sum(tap, o);
    }
    if (dbias_ != nullptr) dbias_[o] = sum(taps, o);
  }
}

std::optional<FirstLayer> first_layer(const Request& request, const TensorType& image, const Shape& kernel,
                                      const TensorType& result) {
  const SlidingWindow window = sliding_window(request.node.attributes, kernel[2], kernel[3]);
  const bool plain =
      window == SlidingWindow{{.kernel = kernel[2]}, {.kernel = kernel[3]}} && image.shape[1] == 1;
  if (request.offer.plain || loops().first_layer_gradient == nullptr || image.dtype != result.dtype || !plain)
    return {};
  FirstLayer shape{};
  shape.kernel_rows = kernel[2];
  shape.kernel_columns = kernel[3];
  shape.channels = kernel[0];
  shape.phases = shape.channels / std::gcd(shape.channels, line_floats);
  const bool known = (kernel[3] == 3 || kernel[3] == 5) && shape.channels <= line_floats &&
                     (shape.phases == 1 || shape.phases == 3);
  if (!known) return {};
  shape.rows = result.shape[2];
  shape.x_rows = image.shape[2];
  shape.x_columns = image.shape[3];
  shape.dy_pitch = rounded(result.shape[3] * shape.channels, line_floats * shape.phases);
  shape.x_pitch = rounded(shape.dy_pitch + shape.kernel_columns * shape.channels, line_floats);
  return shape;
}

std::unique_ptr<Kernel> first_layer_gradient(const Request& request, Lowered& lowered) {
  const TensorType &x = request.inputs[0], &dy = request.inputs[1];
  const auto shape = first_layer(request, x, request.outputs[0].shape, dy);
  const Desc nhwc = with_tag(dy, Tag::nhwc);
  if (!shape || (request.settled(1) && to_format(nhwc) != request.offer.inputs[1])) return nullptr;
  const Desc weight =
      request.output_desc(0).is_zero() ? row_major(request.outputs[0]) : request.output_desc(0);
  lowered.inputs[0] = to_format(row_major(x));
  lowered.inputs[1] = to_format(nhwc);
  lowered.outputs[0] = to_format(weight);
  if (request.has_output(1)) lowered.outputs[1] = to_format(row_major(request.outputs[1]));
  return std::make_unique<FirstLayerGradient>(request, *shape, weight);
}

}  // namespace assay::onednn

// reduce and normalise with their gradients, in row-major order; the global average pool of an image, in the
// image's format.
#include <algorithm>
#include <cmath>

#include "backends/onednn/lowering.hpp"
#include "backends/onednn/reduction.hpp"

namespace assay::onednn {
namespace {

std::span<const std::int64_t> axes_of(const Request& request) {
  return request.node.attributes.get<std::vector<std::int64_t>>("axes");
}
std::string kind_of(const Request& request) { return request.node.attributes.get<std::string>("kind"); }

// The storage type of a value that is summed in double.
void store(const double* values, void* to, DType dtype, std::int64_t elements) {
  Block block;
  for (std::int64_t i = 0; i < elements; i += block_elements) {
    const std::int64_t n = std::min(block_elements, elements - i);
    float* place = block.target(to, dtype, i);
    for (std::int64_t k = 0; k < n; ++k) place[k] = static_cast<float>(values[i + k]);
    block.write(to, dtype, i, n);
  }
}

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const Request& request, int threads)
      : reduction_(request.inputs[0], axes_of(request), kind_of(request) == "max" ? Fold::largest : Fold::sum,
                   threads),
        dtype_(request.inputs[0].dtype) {
    const auto outputs = static_cast<double>(reduction_.rows().outputs());
    if (kind_of(request) == "mean") scale_ = outputs / static_cast<double>(request.inputs[0].elements());
  }
  std::int64_t scratch_bytes() const { return reduction_.scratch_bytes(); }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    x_ = inputs[0];
    y_ = outputs[0];
    scratch_ = static_cast<double*>(scratch);
  }
  void run() override {
    reduction_.run(x_, nullptr, scratch_);
    const std::int64_t outputs = reduction_.rows().outputs();
    if (scale_ != 1) {
      for (std::int64_t o = 0; o < outputs; ++o) scratch_[o] *= scale_;
    }
    store(scratch_, y_, dtype_, outputs);
  }

 private:
  Reduction reduction_;
  DType dtype_;
  double scale_ = 1;
  const void* x_ = nullptr;
  void* y_ = nullptr;
  double* scratch_ = nullptr;
};

// The elements of a reduced tensor as floats, in scratch if they are bf16.
const float* widened(const void* values, DType dtype, std::int64_t elements, float* scratch) {
  if (dtype != DType::bf16) return static_cast<const float*>(values);
  loops().folds.widen(static_cast<const std::uint16_t*>(values), scratch, elements);
  return scratch;
}

class ReduceGradientKernel final : public Kernel {
 public:
  ReduceGradientKernel(const Request& request, int threads)
      : rows_(request.outputs[0].shape, axes_of(request)),
        dtype_(request.outputs[0].dtype),
        threads_(threads),
        max_(kind_of(request) == "max") {
    if (kind_of(request) == "mean") {
      scale_ = static_cast<float>(static_cast<double>(rows_.outputs()) /
                                  static_cast<double>(request.outputs[0].elements()));
    }
  }
  // dy, and for a maximum also y and the number of elements that share it.
  std::int64_t scratch_bytes() const {
    return (max_ ? 3 : 1) * rows_.outputs() * static_cast<std::int64_t>(sizeof(float));
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    dy_ = inputs[0];
    x_ = inputs[1];
    y_ = inputs[2];
    dx_ = outputs[0];
    scratch_ = static_cast<float*>(scratch);
  }
  void run() override {
    const std::int64_t outputs = rows_.outputs();
    const float* dy = widened(dy_, dtype_, outputs, scratch_);
    if (max_) {
      run_max(dy, widened(y_, dtype_, outputs, scratch_ + outputs), scratch_ + 2 * outputs);
      return;
    }
    for_runs(rows_, threads_, [&](std::int64_t at, std::int64_t n, std::int64_t output) {
      Block to;
      float* dx = to.target(dx_, dtype_, at);
      if (rows_.run_is_reduced()) {
        std::fill_n(dx, n, dy[output] * scale_);
      } else {
        loops().folds.scale(dy + output, scale_, dx, n);
      }
      to.write(dx_, dtype_, at, n);
    });
  }

 private:
  void run_max(const float* dy, const float* y, float* share) const {
    count_ties(y, share);
    for (std::int64_t o = 0; o < rows_.outputs(); ++o) share[o] = dy[o] / share[o];
    const std::int64_t step = rows_.run_is_reduced() ? 0 : 1;
    for_runs(rows_, threads_, [&](std::int64_t at, std::int64_t n, std::int64_t output) {
      Block from, to;
      const float* x = from.read(x_, dtype_, at, n);
      float* dx = to.target(dx_, dtype_, at);
      for (std::int64_t i = 0; i < n; ++i) {
        dx[i] = x[i] == y[output + i * step] ? share[output + i * step] : 0.0F;
      }
      to.write(dx_, dtype_, at, n);
    });
  }
  // Each thread has its own results, so that no count is shared.
  void count_ties(const float* y, float* ties) const {
    const std::int64_t width = rows_.width();
    parallel(threads_, rows_.kept(), 1, [&](std::int64_t begin, std::int64_t end) {
      std::fill(ties + begin * width, ties + end * width, 0.0F);
      const std::int64_t step = rows_.run_is_reduced() ? 0 : 1;
      Block from;
      for (std::int64_t row = begin * rows_.reduced(); row < end * rows_.reduced(); ++row) {
        const std::int64_t kept = row / rows_.reduced();
        for (std::int64_t first = 0; first < rows_.run(); first += block_elements) {
          const std::int64_t n = std::min(block_elements, rows_.run() - first);
          const float* x = from.read(x_, dtype_, rows_.offset(kept, row % rows_.reduced()) + first, n);
          const std::int64_t output = kept * width + first * step;
          for (std::int64_t i = 0; i < n; ++i) {
            ties[output + i * step] += x[i] == y[output + i * step] ? 1.0F : 0.0F;
          }
        }
      }
    });
  }

  Rows rows_;
  DType dtype_;
  int threads_;
  bool max_;
  float scale_ = 1;
  const void *dy_ = nullptr, *x_ = nullptr, *y_ = nullptr;
  void* dx_ = nullptr;
  float* scratch_ = nullptr;
};

// A lowering with operands and results in row-major order, and a kernel with scratch.
template <typename KernelOf>
Lowered lower_plain(const Request& request) {
  Lowered lowered = draft(request);
  for (std::size_t i = 0; i < request.node.inputs.size(); ++i) {
    if (request.has_input(i)) lowered.inputs[i] = to_format(row_major(request.inputs[i]));
  }
  for (std::size_t o = 0; o < request.node.outputs.size(); ++o) {
    if (request.has_output(o)) lowered.outputs[o] = to_format(row_major(request.outputs[o]));
  }
  auto kernel = std::make_unique<KernelOf>(request, request.context.threads);
  lowered.scratch_bytes = kernel->scratch_bytes();
  lowered.kernel = std::move(kernel);
  lowered.in_place = in_place(request.node);
  return lowered;
}

// The image formats whose pooled (N, C, 1, 1) is a row-major (N, C).
bool pools_to_rows(const Desc& image) { return dense_image_tag(image) != Tag::undef; }

struct Window {
  explicit Window(const Shape& image) : kernel{image[2], image[3]} {}
  dnnl::memory::dims kernel, strides{1, 1}, nothing{0, 0};
};

dnnl::pooling_forward::primitive_desc pool(const Request& request, const Desc& image, const Desc& pooled) {
  const Window w(Shape(image.get_dims()));
  return ASSAY_ONEDNN(dnnl::pooling_forward::primitive_desc(
      request.context.engine, dnnl::prop_kind::forward_training, dnnl::algorithm::pooling_avg_include_padding,
      image, pooled, w.strides, w.kernel, w.nothing, w.nothing, w.nothing, attributes(), true));
}

Desc pooled_like(const TensorType& image, const Desc& desc) {
  return with_tag({image.dtype, {image.shape[0], image.shape[1], 1, 1}}, dense_image_tag(desc));
}

std::vector<Desc> image_candidates(const Request& request, const TensorType& image, const Desc& offered) {
  if (request.offer.plain) return {row_major(image)};
  std::vector<Desc> candidates;
  if (!offered.is_zero() && pools_to_rows(offered)) candidates.push_back(offered);
  candidates.push_back(with_tag(image, Tag::nhwc));
  return candidates;
}

Lowered lower_reduce(const Request& request) {
  const TensorType& x = request.inputs[0];
  if (!is_global_pool(request.node, x)) return lower_plain<ReduceKernel>(request);
  const auto chosen = choose(request.node, image_candidates(request, x, request.input_desc(0)),
                             [&](const Desc& image) { return pool(request, image, pooled_like(x, image)); });
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(chosen.src_desc());
  lowered.outputs[0] = to_format(row_major(request.outputs[0]));
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::pooling_forward(chosen)));
  kernel->input(DNNL_ARG_SRC, chosen.src_desc(), 0).output(DNNL_ARG_DST, chosen.dst_desc(), 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

Lowered lower_reduce_gradient(const Request& request) {
  const TensorType& dx = request.outputs[0];
  if (!is_global_pool(request.node, dx)) return lower_plain<ReduceGradientKernel>(request);
  const auto chosen =
      choose(request.node, image_candidates(request, dx, request.output_desc(0)), [&](const Desc& image) {
        const Window w(dx.shape);
        const Desc pooled = pooled_like(dx, image);
        return ASSAY_ONEDNN(dnnl::pooling_backward::primitive_desc(
            request.context.engine, dnnl::algorithm::pooling_avg_include_padding, image, pooled, w.strides,
            w.kernel, w.nothing, w.nothing, w.nothing, pool(request, image, pooled), attributes(), true));
      });
  Lowered lowered = draft(request);
  lowered.inputs[0] = to_format(row_major(request.inputs[0]));
  lowered.outputs[0] = to_format(chosen.diff_src_desc());
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::pooling_backward(chosen)));
  kernel->input(DNNL_ARG_DIFF_DST, chosen.diff_dst_desc(), 0);
  kernel->output(DNNL_ARG_DIFF_SRC, chosen.diff_src_desc(), 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

// y = x / max(norm, epsilon) and dx = (dy - y * sum) / norm share their shape.
class NormaliseKernel final : public Kernel {
 public:
  NormaliseKernel(const Request& request, int threads)
      : reduction_(request.inputs[0], axes_of(request), Fold::product, threads),
        dtype_(request.inputs[0].dtype),
        threads_(threads),
        epsilon_(request.node.attributes.number("epsilon")),
        gradient_(request.node.inputs.size() > 1) {}

  // The sums in double, then for each a factor and a share of y, in float.
  std::int64_t scratch_bytes() const {
    return reduction_.scratch_bytes() +
           2 * reduction_.rows().outputs() * static_cast<std::int64_t>(sizeof(float));
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    x_ = inputs[0];
    norm_ = gradient_ ? static_cast<float*>(inputs[1])
                      : (outputs.size() > 1 ? static_cast<float*>(outputs[1]) : nullptr);
    dy_ = gradient_ ? inputs[2] : nullptr;
    to_ = outputs[0];
    sums_ = static_cast<double*>(scratch);
    factors_ = reinterpret_cast<float*>(static_cast<char*>(scratch) + reduction_.scratch_bytes());
    shares_ = factors_ + reduction_.rows().outputs();
  }
  void run() override {
    const Rows& rows = reduction_.rows();
    reduction_.run(x_, gradient_ ? dy_ : x_, sums_);
    for (std::int64_t o = 0; o < rows.outputs(); ++o) {
      const double norm = gradient_ ? static_cast<double>(norm_[o]) : std::sqrt(sums_[o]);
      if (!gradient_ && norm_ != nullptr) norm_[o] = static_cast<float>(norm);
      factors_[o] = static_cast<float>(1 / std::max(norm, epsilon_));
      shares_[o] = norm > epsilon_ ? static_cast<float>(sums_[o]) : 0.0F;
    }
    for_runs(rows, threads_,
             [&](std::int64_t at, std::int64_t n, std::int64_t output) { spread(at, n, output); });
  }

 private:
  void spread(std::int64_t at, std::int64_t n, std::int64_t output) const {
    Block x_block, dy_block, to_block;
    const float* x = x_block.read(x_, dtype_, at, n);
    float* to = to_block.target(to_, dtype_, at);
    const std::int64_t step = reduction_.rows().run_is_reduced() ? 0 : 1;
    if (gradient_) {
      const float* dy = dy_block.read(dy_, dtype_, at, n);
      for (std::int64_t i = 0; i < n; ++i) {
        to[i] = (dy[i] - x[i] * shares_[output + i * step]) * factors_[output + i * step];
      }
    } else if (step == 0) {
      loops().folds.scale(x, factors_[output], to, n);
    } else {
      loops().folds.multiply(x, factors_ + output, to, n);
    }
    to_block.write(to_, dtype_, at, n);
  }

  Reduction reduction_;
  DType dtype_;
  int threads_;
  double epsilon_;
  bool gradient_;
  const void *x_ = nullptr, *dy_ = nullptr;  // x, or in the gradient y
  float* norm_ = nullptr;
  void* to_ = nullptr;
  double* sums_ = nullptr;
  float *factors_ = nullptr, *shares_ = nullptr;
};

}  // namespace

bool is_global_pool(const Node& reduce, const TensorType& image) {
  return reduce.attributes.get<std::string>("kind") == "mean" && image.shape.size() == 4 &&
         std::ranges::equal(reduce.attributes.get<std::vector<std::int64_t>>("axes"),
                            std::array<std::int64_t, 2>{2, 3});
}

std::span<const OpEntry> reduce_ops() {
  static constexpr std::array entries{OpEntry{"reduce", lower_reduce},
                                      OpEntry{"reduce_gradient", lower_reduce_gradient},
                                      OpEntry{"normalise", lower_plain<NormaliseKernel>},
                                      OpEntry{"normalise_gradient", lower_plain<NormaliseKernel>}};
  return entries;
}

}  // namespace assay::onednn

// Batch normalisation. oneDNN returns the variance, but the graph saves 1 / sqrt(variance + epsilon) and
// keeps running statistics: a loop over the channels next to the primitive computes both.
#include <cmath>

#include "backends/onednn/norm_kernel.hpp"

namespace assay::onednn {
namespace {

using dnnl::normalization_flags;

Desc follow(const Request& request, std::size_t i) {
  return request.settled(i) ? request.input_desc(i) : row_major(request.inputs[i]);
}

// The layout of the images of a node: that of x if our loops accept it, else row-major.
Desc dense_follow(const Request& request) {
  const Desc x = follow(request, 0);
  return dense_image_tag(x) == Tag::undef ? row_major(request.inputs[0]) : x;
}

// Whether our own loops are used: only they support fused ops, and they are fast on blocks of channels.
bool is_own(const Request& request, bool fused) {
  return fused || (!request.offer.plain && has_channel_blocks(follow(request, 0)));
}

// Operands x, weight, bias, running_mean, running_variance; results y, mean, inverse_std, new_running_mean,
// new_running_variance.
class TrainingKernel final : public Kernel {
 public:
  TrainingKernel(std::unique_ptr<PrimitiveKernel> primitive, const Node& node, std::int64_t channels,
                 std::int64_t variance_offset)
      : primitive_(std::move(primitive)),
        channels_(static_cast<std::size_t>(channels)),
        offset_(variance_offset),
        epsilon_(static_cast<float>(node.attributes.number("epsilon"))),
        momentum_(static_cast<float>(node.attributes.number("momentum"))) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    primitive_->bind(inputs, outputs, scratch);
    const auto result = [&](std::size_t i) {
      return i < outputs.size() ? static_cast<float*>(outputs[i]) : nullptr;
    };
    variance_ = reinterpret_cast<float*>(static_cast<char*>(scratch) + offset_);
    mean_ = reinterpret_cast<float*>(reinterpret_cast<char*>(variance_) +
                                     aligned(static_cast<std::int64_t>(channels_ * sizeof(float))));
    saved_mean_ = result(1);
    inverse_std_ = result(2);
    old_mean_ = static_cast<const float*>(inputs[3]);
    old_variance_ = static_cast<const float*>(inputs[4]);
    new_mean_ = result(3);
    new_variance_ = result(4);
  }

  void run() override {
    primitive_->run();
    for (std::size_t c = 0; c < channels_; ++c) {
      if (saved_mean_ != nullptr) saved_mean_[c] = mean_[c];
      if (inverse_std_ != nullptr) inverse_std_[c] = 1.0F / std::sqrt(variance_[c] + epsilon_);
      if (new_mean_ != nullptr) new_mean_[c] = momentum_ * old_mean_[c] + (1.0F - momentum_) * mean_[c];
      if (new_variance_ != nullptr) {
        new_variance_[c] = momentum_ * old_variance_[c] + (1.0F - momentum_) * variance_[c];
      }
    }
  }

 private:
  std::unique_ptr<PrimitiveKernel> primitive_;
  std::size_t channels_;
  std::int64_t offset_;
  float epsilon_, momentum_;
  float *mean_ = nullptr, *variance_ = nullptr, *saved_mean_ = nullptr, *inverse_std_ = nullptr;
  float *new_mean_ = nullptr, *new_variance_ = nullptr;
  const float *old_mean_ = nullptr, *old_variance_ = nullptr;
};

Lowered lower_batch_norm(const Request& request) {
  const bool training = request.node.attributes.get<bool>("training");
  const bool own = is_own(request, request.relu() || request.has_input(5));
  const Desc x = own ? dense_follow(request) : follow(request, 0), channel = row_major(request.inputs[1]);
  if (own) {
    Lowered lowered = draft(request);
    lowered.outputs[0] = to_format(x);
    for (const std::size_t i : {0U, 5U}) {
      if (request.has_input(i)) lowered.inputs[i] = to_format(x);
    }
    for (std::size_t i = 1; i < 5; ++i) {
      lowered.inputs[i] = to_format(channel);
      if (request.has_output(i)) lowered.outputs[i] = to_format(channel);
    }
    lower_norm(request, x, lowered);
    return lowered;
  }
  auto flags = normalization_flags::use_scale | normalization_flags::use_shift;
  if (!training) flags = flags | normalization_flags::use_global_stats;
  const auto chosen = ASSAY_ONEDNN(dnnl::batch_normalization_forward::primitive_desc(
      request.context.engine,
      training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference, x, x,
      static_cast<float>(request.node.attributes.number("epsilon")), flags, attributes()));
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.outputs[0] = to_format(x);
  for (std::size_t i = 1; i < request.node.inputs.size(); ++i) {
    if (request.has_input(i)) lowered.inputs[i] = to_format(channel);
  }
  for (std::size_t i = 1; i < request.node.outputs.size(); ++i) {
    if (request.has_output(i)) lowered.outputs[i] = to_format(channel);
  }
  auto kernel = std::make_unique<PrimitiveKernel>(request.context,
                                                  ASSAY_ONEDNN(dnnl::batch_normalization_forward(chosen)));
  kernel->input(DNNL_ARG_SRC, x, 0).input(DNNL_ARG_SCALE, channel, 1).input(DNNL_ARG_SHIFT, channel, 2);
  kernel->output(DNNL_ARG_DST, x, 0).scratch(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc(), 0);
  lowered.scratch_bytes = aligned(static_cast<std::int64_t>(chosen.scratchpad_desc().get_size()));
  if (!training) {
    kernel->input(DNNL_ARG_MEAN, channel, 3).input(DNNL_ARG_VARIANCE, channel, 4);
    lowered.kernel = std::move(kernel);
    return lowered;
  }
  const std::int64_t variance = lowered.scratch_bytes,
                     row = aligned(static_cast<std::int64_t>(channel.get_size()));
  kernel->scratch(DNNL_ARG_VARIANCE, channel, variance).scratch(DNNL_ARG_MEAN, channel, variance + row);
  lowered.scratch_bytes += 2 * row;
  lowered.in_place = {{3, 3}, {4, 4}};
  lowered.kernel = std::make_unique<TrainingKernel>(std::move(kernel), request.node,
                                                    request.inputs[1].elements(), variance);
  return lowered;
}

// Operands x, weight, mean, inverse_std, dy; results dx, dweight, dbias.
class BatchNormGradientKernel final : public Kernel {
 public:
  BatchNormGradientKernel(std::unique_ptr<PrimitiveKernel> primitive, std::int64_t channels,
                          std::int64_t variance_offset)
      : primitive_(std::move(primitive)),
        channels_(static_cast<std::size_t>(channels)),
        offset_(variance_offset) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    primitive_->bind(inputs, outputs, scratch);
    inverse_std_ = static_cast<const float*>(inputs[3]);
    variance_ = reinterpret_cast<float*>(static_cast<char*>(scratch) + offset_);
  }

  void run() override {
    // The variance plus epsilon.
    for (std::size_t c = 0; c < channels_; ++c) variance_[c] = 1.0F / (inverse_std_[c] * inverse_std_[c]);
    primitive_->run();
  }

 private:
  std::unique_ptr<PrimitiveKernel> primitive_;
  std::size_t channels_;
  std::int64_t offset_;
  const float* inverse_std_ = nullptr;
  float* variance_ = nullptr;
};

Lowered lower_batch_norm_gradient(const Request& request) {
  bool fused = request.has_output(3);
  for (const std::size_t i : {5U, 6U, 7U}) fused = fused || request.has_input(i);
  const bool own = is_own(request, fused);
  const Desc x = own ? dense_follow(request) : follow(request, 0), channel = row_major(request.inputs[1]);
  if (own) {
    Lowered lowered = draft(request);
    for (const std::size_t i : {0U, 4U, 6U, 7U}) {
      if (request.has_input(i)) lowered.inputs[i] = to_format(x);
    }
    for (const std::size_t i : {1U, 2U, 3U, 5U}) {
      if (request.has_input(i)) lowered.inputs[i] = to_format(channel);
    }
    for (std::size_t o = 0; o < 4; ++o) {
      if (request.has_output(o)) lowered.outputs[o] = to_format(o == 0 || o == 3 ? x : channel);
    }
    lower_norm_gradient(request, x, lowered);
    return lowered;
  }
  const auto flags = normalization_flags::use_scale | normalization_flags::use_shift;
  const auto hint = ASSAY_ONEDNN(dnnl::batch_normalization_forward::primitive_desc(
      request.context.engine, dnnl::prop_kind::forward_training, x, x, min_epsilon, flags, attributes()));
  const auto chosen = ASSAY_ONEDNN(dnnl::batch_normalization_backward::primitive_desc(
      request.context.engine, dnnl::prop_kind::backward, x, x, x, min_epsilon, flags, hint, attributes()));
  Lowered lowered = draft(request);
  lowered.inputs[0] = lowered.inputs[4] = lowered.outputs[0] = to_format(x);
  lowered.inputs[1] = lowered.inputs[2] = lowered.inputs[3] = to_format(channel);
  for (std::size_t i = 1; i < request.node.outputs.size(); ++i) {
    if (request.has_output(i)) lowered.outputs[i] = to_format(channel);
  }
  const std::int64_t row = aligned(static_cast<std::int64_t>(channel.get_size()));
  std::int64_t offset = aligned(static_cast<std::int64_t>(chosen.scratchpad_desc().get_size()));
  auto kernel = std::make_unique<PrimitiveKernel>(request.context,
                                                  ASSAY_ONEDNN(dnnl::batch_normalization_backward(chosen)));
  kernel->input(DNNL_ARG_SRC, x, 0).input(DNNL_ARG_SCALE, channel, 1).input(DNNL_ARG_MEAN, channel, 2);
  kernel->input(DNNL_ARG_DIFF_DST, x, 4).output(DNNL_ARG_DIFF_SRC, x, 0);
  kernel->scratch(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc(), 0)
      .scratch(DNNL_ARG_VARIANCE, channel, offset);
  const std::int64_t variance = offset;
  for (const std::size_t i : {1U, 2U}) {
    const int argument = i == 1 ? DNNL_ARG_DIFF_SCALE : DNNL_ARG_DIFF_SHIFT;
    offset += row;
    if (request.has_output(i)) {
      kernel->output(argument, channel, i);
    } else {
      kernel->scratch(argument, channel, offset);
    }
  }
  lowered.scratch_bytes = offset + row;
  lowered.kernel =
      std::make_unique<BatchNormGradientKernel>(std::move(kernel), request.inputs[1].elements(), variance);
  return lowered;
}

}  // namespace

std::span<const OpEntry> norm_ops() {
  static constexpr std::array entries{OpEntry{"batch_norm", lower_batch_norm},
                                      OpEntry{"batch_norm_gradient", lower_batch_norm_gradient}};
  return entries;
}

}  // namespace assay::onednn

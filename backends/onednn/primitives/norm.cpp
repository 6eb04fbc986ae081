// Batch normalisation: oneDNN's primitive, and elementwise primitives over the channels for the values that
// the graph keeps: 1 / sqrt(variance + epsilon) and the running statistics.
#include "backends/onednn/norm_kernel.hpp"
#include "backends/onednn/primitives/composition.hpp"
#include "backends/onednn/primitives/ops.hpp"

namespace assay::onednn::primitives {
namespace {

using dnnl::algorithm;
using dnnl::normalization_flags;

const auto affine = normalization_flags::use_scale | normalization_flags::use_shift;

// The format of x: the primitive accepts any.
Desc images_of(const Request& request) {
  return request.settled(0) ? request.input_desc(0) : row_major(request.inputs[0]);
}

dnnl::batch_normalization_forward::primitive_desc forward(const Request& request, dnnl::prop_kind task,
                                                          const Desc& x, float epsilon,
                                                          normalization_flags flags) {
  return ASSAY_ONEDNN(dnnl::batch_normalization_forward::primitive_desc(request.context.engine, task, x, x,
                                                                        epsilon, flags, attributes()));
}

// Operands x, weight, bias, running_mean, running_variance; results y, mean, inverse_std, new_running_mean,
// new_running_variance.
Lowered lower_norm(const Request& request) {
  const Attributes& given = request.node.attributes;
  const auto epsilon = static_cast<float>(given.number("epsilon"));
  const Desc x = images_of(request), channel = row_major(request.inputs[1]);
  Lowered lowered = row_major_draft(request);
  lowered.inputs[0] = lowered.outputs[0] = to_format(x);
  Composition steps(request);
  const Term old_mean = steps.input(3, channel), old_variance = steps.input(4, channel);
  const Term from = steps.input(0, x), scale = steps.input(1, channel), shift = steps.input(2, channel);
  if (!given.get<bool>("training")) {
    const auto chosen = forward(request, dnnl::prop_kind::forward_inference, x, epsilon,
                                affine | normalization_flags::use_global_stats);
    steps.run<dnnl::batch_normalization_forward>(chosen, {{DNNL_ARG_SRC, from},
                                                          {DNNL_ARG_SCALE, scale},
                                                          {DNNL_ARG_SHIFT, shift},
                                                          {DNNL_ARG_MEAN, old_mean},
                                                          {DNNL_ARG_VARIANCE, old_variance},
                                                          {DNNL_ARG_DST, steps.output(0, x)}});
    steps.finish(lowered);
    return lowered;
  }
  const Term mean = request.has_output(1) ? steps.output(1, channel) : steps.temporary(channel);
  const Term variance = steps.temporary(channel);
  const auto chosen = forward(request, dnnl::prop_kind::forward_training, x, epsilon, affine);
  steps.run<dnnl::batch_normalization_forward>(chosen, {{DNNL_ARG_SRC, from},
                                                        {DNNL_ARG_SCALE, scale},
                                                        {DNNL_ARG_SHIFT, shift},
                                                        {DNNL_ARG_MEAN, mean},
                                                        {DNNL_ARG_VARIANCE, variance},
                                                        {DNNL_ARG_DST, steps.output(0, x)}});
  const auto momentum = static_cast<float>(given.number("momentum"));
  if (request.has_output(3)) steps.sum(momentum, old_mean, 1 - momentum, mean, steps.output(3, channel));
  if (request.has_output(4))
    steps.sum(momentum, old_variance, 1 - momentum, variance, steps.output(4, channel));
  if (request.has_output(2)) {
    const Term inverse_std = steps.output(2, channel);
    steps.eltwise(algorithm::eltwise_linear, variance, inverse_std, 1, epsilon);
    steps.eltwise(algorithm::eltwise_pow, inverse_std, inverse_std, 1, -0.5F);
  }
  steps.finish(lowered);
  lowered.in_place = {{3, 3}, {4, 4}};
  return lowered;
}

// Operands x, weight, mean, inverse_std, dy; results dx, dweight, dbias.
Lowered lower_norm_gradient(const Request& request) {
  const Desc x = images_of(request), channel = row_major(request.inputs[1]);
  Lowered lowered = row_major_draft(request);
  lowered.inputs[0] = lowered.inputs[4] = lowered.outputs[0] = to_format(x);
  Composition steps(request);
  // The variance plus epsilon.
  const Term variance = steps.temporary(channel);
  steps.eltwise(algorithm::eltwise_pow, steps.input(3, channel), variance, 1, -2);
  const auto hint = forward(request, dnnl::prop_kind::forward_training, x, min_epsilon, affine);
  const auto chosen = ASSAY_ONEDNN(dnnl::batch_normalization_backward::primitive_desc(
      steps.engine(), dnnl::prop_kind::backward, x, x, x, min_epsilon, affine, hint, attributes()));
  const auto result = [&](std::size_t o) {
    return request.has_output(o) ? steps.output(o, channel) : steps.temporary(channel);
  };
  steps.run<dnnl::batch_normalization_backward>(chosen, {{DNNL_ARG_SRC, steps.input(0, x)},
                                                         {DNNL_ARG_SCALE, steps.input(1, channel)},
                                                         {DNNL_ARG_MEAN, steps.input(2, channel)},
                                                         {DNNL_ARG_VARIANCE, variance},
                                                         {DNNL_ARG_DIFF_DST, steps.input(4, x)},
                                                         {DNNL_ARG_DIFF_SRC, steps.output(0, x)},
                                                         {DNNL_ARG_DIFF_SCALE, result(1)},
                                                         {DNNL_ARG_DIFF_SHIFT, result(2)}});
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> norm_ops() {
  static constexpr std::array entries{OpEntry{"batch_norm", lower_norm},
                                      OpEntry{"batch_norm_gradient", lower_norm_gradient}};
  return entries;
}

}  // namespace assay::onednn::primitives

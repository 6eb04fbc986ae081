// Batch normalisation and softmax by cuDNN.
#include "backends/cuda/primitives/composition.hpp"
#include "backends/cuda/primitives/ops.hpp"

namespace assay::cuda::primitives {
namespace {

double epsilon_of(const Request& request) { return request.node.attributes.number("epsilon"); }

// Operands x, weight, bias, running_mean, running_variance; results y, mean, inverse_std, new_running_mean,
// new_running_variance. The graph's variance is the biased one: the running statistics are blended after
// cuDNN's call, which would blend in the unbiased one.
Lowered lower_forward(const Request& request) {
  const Layout layout = request.follow({0});
  Lowered lowered = draft(request, layout);
  Composition steps(request);
  const TensorSpec x = image(request.inputs[0], layout), channel = per_channel(request.in(0)[1]);
  const Term from = steps.input(0, x), weight = steps.input(1, channel), bias = steps.input(2, channel);
  const Term old_mean = steps.input(3, channel), old_variance = steps.input(4, channel);
  const Term y = steps.output(0, x);
  if (!request.node.attributes.get<bool>("training")) {
    steps.run(steps.calls().norm_inference(x, epsilon_of(request)),
              {from, weight, bias, old_mean, old_variance}, {y});
    steps.finish(lowered);
    return lowered;
  }
  const auto result = [&](std::size_t o) {
    return request.has_output(o) ? Composition::output(o, channel) : steps.temporary(channel);
  };
  const Term mean = result(1), inverse_std = result(2);
  const Term same_mean = steps.temporary(channel), unbiased = steps.temporary(channel);
  steps.run(steps.calls().norm_training(x, epsilon_of(request)), {from, weight, bias},
            {y, mean, inverse_std, same_mean, unbiased});
  const double momentum = request.node.attributes.number("momentum");
  const auto pixels = static_cast<double>(request.inputs[0].elements() / request.in(0)[1]);
  const double biased = pixels > 1 ? (pixels - 1) / pixels : 1;
  const auto blend = [&](const Term& old, double share, const Term& now, std::size_t o) {
    if (request.has_output(o))
      steps.binary(Binary::add, static_cast<float>(momentum), old, static_cast<float>(share), now, result(o));
  };
  blend(old_mean, 1 - momentum, mean, 3);
  blend(old_variance, (1 - momentum) * biased, unbiased, 4);
  steps.finish(lowered);
  lowered.in_place = {{3, 3}, {4, 4}};
  return lowered;
}

// Operands x, weight, mean, inverse_std, dy; results dx, dweight, dbias.
Lowered lower_gradient(const Request& request) {
  const Layout layout = request.follow({0, 4});
  Lowered lowered = draft(request, layout);
  Composition steps(request);
  const TensorSpec x = image(request.inputs[0], layout), channel = per_channel(request.in(0)[1]);
  const auto operand = [&](std::size_t i) { return Composition::input(i, channel); };
  const auto result = [&](std::size_t o) {
    return request.has_output(o) ? Composition::output(o, channel) : steps.temporary(channel);
  };
  // Epsilon is in inverse_std already.
  steps.run(steps.calls().norm_gradient(x, 0),
            {steps.input(0, x), operand(1), operand(2), operand(3), steps.input(4, x)},
            {steps.output(0, x), result(1), result(2)});
  steps.finish(lowered);
  return lowered;
}

Lowered lower_softmax(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const std::int64_t columns = request.in(0).back();
  const TensorSpec rows = packed(request.inputs[0].dtype, {request.inputs[0].elements() / columns, columns});
  steps.run(steps.calls().softmax(rows), {steps.input(0, rows)}, {steps.output(0, rows)});
  steps.finish(lowered);
  return lowered;
}

Lowered lower_softmax_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const std::int64_t columns = request.in(0).back();
  const TensorSpec rows = packed(request.inputs[0].dtype, {request.inputs[0].elements() / columns, columns});
  steps.run(steps.calls().softmax_gradient(rows), {steps.input(0, rows), steps.input(1, rows)},
            {steps.output(0, rows)});
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> norm_ops() {
  static constexpr std::array entries{
      OpEntry{"batch_norm", lower_forward}, OpEntry{"batch_norm_gradient", lower_gradient},
      OpEntry{"softmax", lower_softmax}, OpEntry{"softmax_gradient", lower_softmax_gradient}};
  return entries;
}

}  // namespace assay::cuda::primitives

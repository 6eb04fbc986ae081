// Pooling by cuDNN, in the layout of the image.
#include "backends/cuda/primitives/composition.hpp"
#include "backends/cuda/primitives/ops.hpp"

namespace assay::cuda::primitives {
namespace {

PoolSpec spec_of(const Request& request, bool maximum, const TensorType& x, const TensorType& y,
                 Layout layout) {
  return {maximum,          request.integer("kernel"), request.integer("stride"), request.integer("padding"),
          image(x, layout), image(y, layout)};
}

template <bool maximum>
Lowered lower_forward(const Request& request) {
  const Layout layout = request.follow({0});
  Lowered lowered = draft(request, layout);
  // The gradient finds the maximum again: argmax is not written.
  if (request.has_output(1)) lowered.outputs[1] = opaque_format(1, layout);
  Composition steps(request);
  const PoolSpec spec = spec_of(request, maximum, request.inputs[0], request.outputs[0], layout);
  steps.run(steps.calls().pool(spec), {steps.input(0, spec.x)}, {steps.output(0, spec.y)});
  steps.finish(lowered);
  return lowered;
}

Lowered lower_average_gradient(const Request& request) {
  const Layout layout = request.follow({0});
  Lowered lowered = draft(request, layout);
  Composition steps(request);
  const PoolSpec spec = spec_of(request, false, request.outputs[0], request.inputs[0], layout);
  const Term dy = steps.input(0, spec.y), dx = steps.output(0, spec.x);
  steps.run(steps.calls().pool_gradient(spec), {dx, dy, dy}, {dx});
  steps.finish(lowered);
  return lowered;
}

// Operands dy, argmax, mask, x, y.
Lowered lower_maximum_gradient(const Request& request) {
  const Layout layout = request.follow({3, 0});
  Lowered lowered = draft(request, layout);
  lowered.inputs[1] = request.offer.inputs[1];
  Composition steps(request);
  const PoolSpec spec = spec_of(request, true, request.outputs[0], request.inputs[0], layout);
  steps.run(steps.calls().pool_gradient(spec),
            {steps.input(3, spec.x), steps.input(4, spec.y), steps.input(0, spec.y)},
            {steps.output(0, spec.x)});
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> pool_ops() {
  static constexpr std::array entries{
      OpEntry{"average_pool", lower_forward<false>}, OpEntry{"average_pool_gradient", lower_average_gradient},
      OpEntry{"max_pool", lower_forward<true>}, OpEntry{"max_pool_gradient", lower_maximum_gradient}};
  return entries;
}

}  // namespace assay::cuda::primitives

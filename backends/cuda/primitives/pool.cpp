// Pooling by cuDNN, in the layout of the image.
#include <fmt/format.h>

#include "backends/cuda/primitives/composition.hpp"
#include "backends/cuda/primitives/ops.hpp"
#include "harness/graph/sliding_window.hpp"

namespace assay::cuda::primitives {
namespace {

PoolAxis axis_of(const WindowAxis& axis) { return {axis.kernel, axis.stride, axis.before}; }

PoolSpec spec_of(const Request& request, bool maximum, const TensorType& x, const TensorType& y,
                 Layout layout) {
  const Attributes& attributes = request.node.attributes;
  const SlidingWindow window = pool_window(attributes);
  return {maximum,
          maximum || counts_padding(attributes),
          axis_of(window.rows),
          axis_of(window.columns),
          image(x, layout),
          image(y, layout)};
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

// Whether `in` elements have the same windows if they are padded alike at both ends.
bool is_alike(WindowAxis axis, std::int64_t in) {
  const std::int64_t windows = axis.windows(in);
  axis.after = axis.before;
  return in + 2 * axis.before >= axis.kernel && axis.windows(in) == windows;
}

}  // namespace

std::string reason_against_pool(const Graph& graph, const Node& node) {
  const bool gradient = node.op->name().ends_with("_gradient");
  const Shape& x = graph.value(gradient ? node.outputs[0] : node.inputs[0]).type.shape;
  const SlidingWindow window = pool_window(node.attributes);
  if (is_alike(window.rows, x[2]) && is_alike(window.columns, x[3])) return {};
  return fmt::format("[{}] {}: cuDNN pads opposite sides alike", node.op->name(), node.name);
}

std::span<const OpEntry> pool_ops() {
  static constexpr std::array entries{
      OpEntry{"average_pool", lower_forward<false>}, OpEntry{"average_pool_gradient", lower_average_gradient},
      OpEntry{"max_pool", lower_forward<true>}, OpEntry{"max_pool_gradient", lower_maximum_gradient}};
  return entries;
}

}  // namespace assay::cuda::primitives

// Reductions over named dimensions by cuDNN. It reduces and repeats; it does not compare, which the gradient
// of a maximum needs.
#include "backends/cuda/primitives/composition.hpp"
#include "backends/cuda/primitives/ops.hpp"

namespace assay::cuda::primitives {
namespace {

// Row-major, with 1 instead of each of the attribute "axes".
TensorSpec with_ones(const Request& request, DType dtype, Shape shape) {
  for (const std::int64_t axis : request.node.attributes.get<std::vector<std::int64_t>>("axes"))
    shape[static_cast<std::size_t>(axis)] = 1;
  return packed(dtype, shape);
}

std::string kind_of(const Request& request) { return request.node.attributes.get<std::string>("kind"); }

Lowered lower_reduce(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const std::string kind = kind_of(request);
  const Reduction reduction = kind == "max"    ? Reduction::maximum
                              : kind == "mean" ? Reduction::mean
                                               : Reduction::sum;
  const DType dtype = request.outputs[0].dtype;
  const Term x = steps.widened(steps.input(0, packed(request.inputs[0].dtype, request.in(0))));
  const Term y = steps.output(0, with_ones(request, dtype, request.in(0)));
  if (dtype == DType::f32) {
    steps.reduce(reduction, x, y);
  } else {
    const Term wide = steps.temporary(packed(DType::f32, y.spec.shape));
    steps.reduce(reduction, x, wide);
    steps.convert(wide, y);
  }
  steps.finish(lowered);
  return lowered;
}

// Operands dy, x and y, the last two for a maximum.
Lowered lower_reduce_gradient(const Request& request) {
  const std::string kind = kind_of(request);
  if (kind == "max") return cuda::find_entry("reduce_gradient")->lower(request);
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const TensorSpec dx = packed(request.outputs[0].dtype, request.out(0));
  const TensorSpec dy = with_ones(request, request.inputs[0].dtype, request.out(0));
  const double share =
      static_cast<double>(request.inputs[0].elements()) / static_cast<double>(request.outputs[0].elements());
  steps.run(steps.calls().repeat(kind == "mean" ? static_cast<float>(share) : 1.0F, dy, dx),
            {steps.input(0, dy)}, {steps.output(0, dx)});
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> reduce_ops() {
  static constexpr std::array entries{OpEntry{"reduce", lower_reduce},
                                      OpEntry{"reduce_gradient", lower_reduce_gradient}};
  return entries;
}

}  // namespace assay::cuda::primitives

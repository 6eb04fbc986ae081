// What moves elements without touching them: copies of rows by the CUDA runtime, other strides by cuDNN.
#include "backends/cuda/primitives/composition.hpp"
#include "backends/cuda/primitives/ops.hpp"

namespace assay::cuda::primitives {
namespace {

// A tensor as rows, cut in front of the attribute "axis".
struct Rows {
  Rows(const Request& request, const TensorType& type)
      : axis(static_cast<std::size_t>(request.integer("axis"))),
        count(element_count({type.shape.begin(), type.shape.begin() + request.integer("axis")})),
        bytes(type.bytes() / count),
        step(bytes / type.shape[axis]) {}

  std::size_t axis;
  std::int64_t count, bytes;  // bytes: of a row
  std::int64_t step;          // bytes of one place along the axis
};

Term operand_term(const Request& request, std::size_t i, std::int64_t offset = 0) {
  return Composition::input(i, dense(request.inputs[i]), offset);
}
Term result_term(const Request& request, std::int64_t offset = 0) {
  return Composition::output(0, dense(request.outputs[0]), offset);
}

Lowered lower_concat(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const Rows whole(request, request.outputs[0]);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const Rows part(request, request.inputs[i]);
    steps.run(steps.calls().copy({part.count, part.bytes, part.bytes, whole.bytes}),
              {operand_term(request, i)}, {result_term(request, begin)});
    begin += part.bytes;
  }
  steps.finish(lowered);
  return lowered;
}

Lowered lower_slice(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const Rows whole(request, request.inputs[0]), part(request, request.outputs[0]);
  steps.run(steps.calls().copy({part.count, part.bytes, whole.bytes, part.bytes}),
            {operand_term(request, 0, request.integer("begin") * whole.step)}, {result_term(request)});
  steps.finish(lowered);
  return lowered;
}

Lowered lower_slice_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const Rows whole(request, request.outputs[0]), part(request, request.inputs[0]);
  steps.run(steps.calls().fill(0, dense(request.outputs[0])), {}, {result_term(request)});
  steps.run(steps.calls().copy({part.count, part.bytes, part.bytes, whole.bytes}), {operand_term(request, 0)},
            {result_term(request, request.integer("begin") * whole.step)});
  steps.finish(lowered);
  return lowered;
}

Lowered lower_transpose(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const TensorSpec x = packed(request.inputs[0].dtype, request.in(0));
  const TensorSpec y = packed(request.outputs[0].dtype, request.out(0));
  TensorSpec turned{x.dtype, y.shape, {}};  // x in the order of y's dimensions
  for (const std::int64_t from : request.node.attributes.get<std::vector<std::int64_t>>("permutation"))
    turned.strides.push_back(x.strides[static_cast<std::size_t>(from)]);
  steps.run(steps.calls().transform(turned, y), {Composition::input(0, turned)}, {Composition::output(0, y)});
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::unique_ptr<Kernel> make_reorder(Context& context, const TensorType& type, Layout from, Layout to) {
  // Masks of bytes and labels: cuDNN's conversions are of numbers.
  if (!is_floating(type.dtype) || from == to) return cuda::make_reorder(context, type, from, to);
  Call call = context.device.calls().transform(image(type, from), image(type, to));
  std::string name = call.name;
  return make_kernel([run = std::move(call.run)](
                         const Operands& at) { run(Places(at.inputs), Places(at.outputs), nullptr); },
                     std::move(name));
}

std::span<const OpEntry> move_ops() {
  static constexpr std::array entries{OpEntry{"concat", lower_concat}, OpEntry{"slice", lower_slice},
                                      OpEntry{"slice_gradient", lower_slice_gradient},
                                      OpEntry{"transpose", lower_transpose}};
  return entries;
}

}  // namespace assay::cuda::primitives

// Layers with weights: a product by cuBLASLt or a convolution by cuDNN, and next to it what the library does
// not compute with it. A bias is added by cuBLASLt's epilogue, or by cuDNN where it has an engine with one,
// else by a call of its own; its gradient is a reduction of dy.
#include "backends/cuda/primitives/composition.hpp"
#include "backends/cuda/primitives/ops.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda::primitives {
namespace {

using Kind = ConvolutionSpec::Kind;

// Null where cuDNN has no engine for it.
std::shared_ptr<Convolution> engine_of(const Request& request, const ConvolutionSpec& spec) {
  try {
    return request.context.device.convolution(spec);
  } catch (const Unsupported&) {
    return nullptr;
  }
}

// By an engine whose result has the type that the graph wants; else the result is converted.
void add_convolution(const Request& request, Composition& steps, ConvolutionSpec spec, const Term& a,
                     const Term& b, const Term& result) {
  if (spec.result != spec.operands) {
    if (auto direct = engine_of(request, spec)) return steps.run(call_of(direct), {a, b}, {result});
    spec.result = spec.operands;
  }
  std::shared_ptr<Convolution> engine = request.context.device.convolution(spec);
  if (result.spec.dtype == spec.result) return steps.run(call_of(std::move(engine)), {a, b}, {result});
  const Term narrow = steps.temporary({spec.result, result.spec.shape, result.spec.strides});
  steps.run(call_of(std::move(engine)), {a, b}, {narrow});
  steps.convert(narrow, result);
}

Lowered lower_convolution(const Request& request) {
  const Layout layout = request.preferred();
  Lowered lowered = draft(request, layout);
  Composition steps(request);
  ConvolutionSpec spec =
      convolution_of(request, Kind::forward, request.in(0), request.out(0), request.in(1), layout);
  const Term x = steps.input(0, image(request.inputs[0], layout));
  const Term weight = steps.input(1, image(request.inputs[1], layout));
  const Term bias = steps.input(2, per_channel(request.out(0)[1]));
  const Term y = steps.output(0, image(request.outputs[0], layout));
  spec.bias = request.has_input(2);
  if (!spec.bias) {
    add_convolution(request, steps, spec, x, weight, y);
  } else if (auto fused = engine_of(request, spec)) {
    steps.run(call_of(std::move(fused)), {x, weight, bias}, {y});
  } else {
    // The sum with the bias is rounded to y once.
    spec.bias = false;
    spec.result = DType::f32;
    const Term sums =
        y.spec.dtype == DType::f32 ? y : steps.temporary({DType::f32, y.spec.shape, y.spec.strides});
    add_convolution(request, steps, spec, x, weight, sums);
    steps.binary(Binary::add, 1, sums, 1, bias, y);
  }
  steps.finish(lowered);
  return lowered;
}

Lowered lower_convolution_weight_gradient(const Request& request) {
  const Layout layout = request.preferred();
  Lowered lowered = draft(request, layout);
  Composition steps(request);
  const Term x = steps.input(0, image(request.inputs[0], layout));
  const Term dy = steps.input(1, image(request.inputs[1], layout));
  const Term dweight = steps.output(0, image(request.outputs[0], layout));
  add_convolution(
      request, steps,
      convolution_of(request, Kind::weight_gradient, request.in(0), request.in(1), request.out(0), layout), x,
      dy, dweight);
  if (request.has_output(1))
    steps.reduce(Reduction::sum, steps.widened(dy), steps.output(1, per_channel(request.in(1)[1])));
  steps.finish(lowered);
  return lowered;
}

Lowered lower_linear(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const RowsOfTensor rows(request.in(0));
  MatmulSpec spec = dense_product(request, rows.rows, request.in(1)[0], rows.columns, false, true);
  const Term x = steps.input(0, dense(request.inputs[0])), weight = steps.input(1, dense(request.inputs[1]));
  const Term y = steps.output(0, dense(request.outputs[0]));
  spec.bias = request.has_input(2);
  if (spec.bias) {
    // The bias of the epilogue has the type of the result, and ours is f32.
    spec.result = DType::f32;
    const Term wide = y.spec.dtype == DType::f32 ? y : steps.temporary(packed(DType::f32, y.spec.shape));
    steps.run(call_of(request.context.device.matmul(spec)),
              {x, weight, steps.input(2, dense(request.inputs[2]))}, {wide});
    if (y.spec.dtype != DType::f32) steps.convert(wide, y);
  } else {
    steps.run(call_of(request.context.device.matmul(spec)), {x, weight}, {y});
  }
  steps.finish(lowered);
  return lowered;
}

Lowered lower_linear_weight_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const RowsOfTensor rows(request.in(0));
  const std::int64_t batch = rows.rows, inner = rows.columns, outer = request.in(1).back();
  const Term x = steps.input(0, dense(request.inputs[0]));
  const Term dy = steps.input(1, packed(request.inputs[1].dtype, {batch, outer}));
  steps.run(call_of(request.context.device.matmul(dense_product(request, outer, inner, batch, true, false))),
            {dy, x}, {steps.output(0, dense(request.outputs[0]))});
  if (request.has_output(1))
    steps.reduce(Reduction::sum, steps.widened(dy), steps.output(1, packed(DType::f32, {1, outer})));
  steps.finish(lowered);
  return lowered;
}

// A row times a column.
Lowered lower_dot(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  const MatmulSpec spec = dense_product(request, 1, 1, request.in(0)[0], false, false);
  steps.run(call_of(request.context.device.matmul(spec)),
            {steps.input(0, dense(request.inputs[0])), steps.input(1, dense(request.inputs[1]))},
            {steps.output(0, packed(request.outputs[0].dtype, {1, 1}))});
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> product_ops() {
  static constexpr std::array entries{
      OpEntry{"convolution", lower_convolution},
      OpEntry{"convolution_weight_gradient", lower_convolution_weight_gradient},
      OpEntry{"linear", lower_linear}, OpEntry{"linear_weight_gradient", lower_linear_weight_gradient},
      OpEntry{"dot", lower_dot}};
  return entries;
}

}  // namespace assay::cuda::primitives

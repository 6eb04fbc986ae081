// Convolutions by the vendor's library, and the parts that it lacks: masks and the gradient of the bias.
#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/lowering.hpp"
#include "backends/cuda/own_products.hpp"

namespace assay::cuda {
namespace {

Lowered lower_convolution(const Request& request) {
  const Layout layout = request.preferred();
  Lowered lowered = draft(request, layout);
  ConvolutionSpec spec = convolution_of(request, ConvolutionSpec::Kind::forward, request.in(0),
                                        request.out(0), request.in(1), layout);
  spec.bias = request.has_input(2);
  spec.relu = request.relu();
  std::shared_ptr<Convolution> convolution = request.context.device.convolution(spec);
  lowered.scratch_bytes = convolution->workspace_bytes();
  lowered.kernel = make_kernel(
      [convolution](const Operands& at) {
        convolution->run(at.inputs[0], at.inputs[1], at.in<float>(2), at.outputs[0], at.scratch);
      },
      convolution->name());
  return lowered;
}

Lowered lower_convolution_input_gradient(const Request& request) {
  const Layout layout = request.preferred();
  Lowered lowered = draft(request, layout);
  const ConvolutionSpec spec = convolution_of(request, ConvolutionSpec::Kind::input_gradient, request.out(0),
                                              request.in(0), request.in(1), layout);
  std::shared_ptr<Convolution> convolution = request.context.device.convolution(spec);
  lowered.scratch_bytes = convolution->workspace_bytes();
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [convolution, stream, mask = request.has_input(2), type = request.outputs[0]](const Operands& at) {
        convolution->run(at.inputs[0], at.inputs[1], nullptr, at.outputs[0], at.scratch);
        if (mask) apply_mask(stream, type.dtype, at.inputs[2], at.outputs[0], type.elements());
      },
      convolution->name());
  return lowered;
}

Lowered lower_convolution_weight_gradient(const Request& request) {
  const Layout layout = request.preferred();
  Lowered lowered = draft(request, layout);
  const Shape& dy = request.in(1);
  const ConvolutionSpec spec = convolution_of(request, ConvolutionSpec::Kind::weight_gradient, request.in(0),
                                              dy, request.out(0), layout);
  std::shared_ptr<Convolution> convolution = request.context.device.convolution(spec);
  const Strides strides = strides_of(dy, layout);
  const Matrix pixels{dy[0] * dy[2] * dy[3], dy[1], dy[2] * dy[3], strides.n, strides.w, strides.c};
  const bool bias = request.has_output(1);
  Scratch scratch;
  const std::int64_t workspace = scratch.add(convolution->workspace_bytes());
  const std::int64_t partial = scratch.add(bias ? column_sum_scratch(pixels) : 0);
  lowered.scratch_bytes = scratch.bytes();
  const Stream stream = request.context.device.stream();
  lowered.kernel = with_type(request.inputs[1].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          convolution->run(at.inputs[0], at.inputs[1], nullptr, at.outputs[0],
                           at.scratch_at<std::byte>(workspace));
          if (bias) column_sums(stream, pixels, at.in<T>(1), at.out<float>(1), at.scratch_at<float>(partial));
        },
        convolution->name());
  });
  return lowered;
}

}  // namespace

std::span<const OpEntry> convolution_ops() {
  static constexpr std::array entries{
      OpEntry{"convolution", lower_convolution},
      OpEntry{"convolution_input_gradient", lower_convolution_input_gradient},
      OpEntry{"convolution_weight_gradient", lower_convolution_weight_gradient}};
  return entries;
}

}  // namespace assay::cuda

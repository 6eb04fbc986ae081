// Convolution and average pooling as in oneDNN's documentation: the primitive chooses every format.
#include "backends/onednn/convolution.hpp"

#include "backends/onednn/pool_gradient.hpp"
#include "backends/onednn/primitives/ops.hpp"

namespace assay::onednn::primitives {
namespace {

std::vector<Trio> any_format(const Request& request, const TensorType& image, const TensorType& weight,
                             const TensorType& result) {
  return {{any_of(image), any_of(grouped_weight(request.node, weight)), any_of(result)}};
}

Lowered lower_convolution(const Request& request) {
  return convolution_forward(request,
                             any_format(request, request.inputs[0], request.inputs[1], request.outputs[0]));
}

Lowered lower_input_gradient(const Request& request) {
  return convolution_input_gradient(
      request, any_format(request, request.outputs[0], request.inputs[1], request.inputs[0]));
}

Lowered lower_weight_gradient(const Request& request) {
  return convolution_weight_gradient(
      request, any_format(request, request.inputs[0], request.outputs[0], request.inputs[1]));
}

// In blocks of channels, as for convolutions. This primitive does not choose a format, and its operand comes
// from a flattened image in row-major order, in which it is slow.
Lowered lower_average_pool_gradient(const Request& request) {
  const TensorType& dx = request.outputs[0];
  const Tag blocks = dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core ? Tag::nChw16c : Tag::nChw8c;
  return average_pool_gradient(request, {with_tag(dx, blocks), with_tag(dx, Tag::nhwc), row_major(dx)});
}

}  // namespace

std::span<const OpEntry> convolution_ops() {
  static constexpr std::array entries{OpEntry{"convolution", lower_convolution},
                                      OpEntry{"convolution_input_gradient", lower_input_gradient},
                                      OpEntry{"convolution_weight_gradient", lower_weight_gradient}};
  return entries;
}

std::span<const OpEntry> pool_ops() {
  static constexpr std::array entries{OpEntry{"average_pool_gradient", lower_average_pool_gradient}};
  return entries;
}

}  // namespace assay::onednn::primitives

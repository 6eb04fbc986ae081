// Convolution and average pooling as oneDNN's documentation has them: every format is the primitive's choice.
#include "backends/onednn/convolution.hpp"

#include "backends/onednn/pool_gradient.hpp"
#include "backends/onednn/primitives/ops.hpp"

namespace assay::onednn::primitives {
namespace {

std::vector<Trio> any_format(const TensorType& image, const TensorType& weight, const TensorType& result) {
  return {{any_of(image), any_of(weight), any_of(result)}};
}

Lowered lower_forward(const Request& request) {
  return convolution_forward(request, any_format(request.inputs[0], request.inputs[1], request.outputs[0]));
}

Lowered lower_input_gradient(const Request& request) {
  return convolution_input_gradient(request,
                                    any_format(request.outputs[0], request.inputs[1], request.inputs[0]));
}

Lowered lower_weight_gradient(const Request& request) {
  return convolution_weight_gradient(request,
                                     any_format(request.inputs[0], request.outputs[0], request.inputs[1]));
}

}  // namespace

std::span<const OpEntry> convolution_ops() {
  static constexpr std::array entries{OpEntry{"convolution", lower_forward},
                                      OpEntry{"convolution_input_gradient", lower_input_gradient},
                                      OpEntry{"convolution_weight_gradient", lower_weight_gradient}};
  return entries;
}

std::span<const OpEntry> pool_ops() {
  static constexpr std::array entries{OpEntry{"average_pool_gradient", average_pool_gradient}};
  return entries;
}

}  // namespace assay::onednn::primitives

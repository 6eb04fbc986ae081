#include "harness/io/host_tensor.hpp"

namespace assay {

HostTensor HostTensor::zeros(std::string name, TensorType type) {
  HostTensor tensor{std::move(name), std::move(type), {}};
  tensor.bytes.resize(static_cast<std::size_t>(tensor.type.bytes()));
  return tensor;
}

}  // namespace assay

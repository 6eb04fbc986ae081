#include "harness/core/io/host_tensor.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "harness/core/error.hpp"

namespace assay {

HostTensor HostTensor::zeros(std::string name, TensorType type) {
  HostTensor tensor{std::move(name), std::move(type), {}};
  tensor.bytes.resize(static_cast<std::size_t>(tensor.type.bytes()));
  return tensor;
}

std::vector<double> to_doubles(const HostTensor& tensor) {
  if (tensor.type.dtype == DType::f64) {
    const std::span<const double> values = tensor.as<double>();
    return {values.begin(), values.end()};
  }
  if (tensor.type.dtype == DType::f32) {
    const std::span<const float> values = tensor.as<float>();
    return {values.begin(), values.end()};
  }
  throw CellError(fmt::format("[check] {} is {}: f32 or f64 is needed", tensor.name, to_string(tensor.type)));
}

}  // namespace assay

// A named tensor in host memory: what safetensors files hold and what crosses the backend contract.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "harness/core/tensor.hpp"

namespace assay {

// Owns its bytes, row-major, 64-byte aligned is not promised.
struct HostTensor {
  std::string name;
  TensorType type;
  std::vector<std::byte> bytes;  // type.bytes() of them

  static HostTensor zeros(std::string name, TensorType type);

  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

// The elements of a tensor of f32 or f64 in double. Throws std::runtime_error naming it for another type.
std::vector<double> to_doubles(const HostTensor& tensor);

}  // namespace assay

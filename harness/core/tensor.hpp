// Types of tensors, and tensors in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

enum class DType : std::uint8_t { f64, f32, bf16, i32, u8 };

// Bytes of one element.
std::int64_t size_of(DType dtype);
// "f32"; parse_dtype throws GraphError for an unknown name.
std::string_view to_string(DType dtype);
DType parse_dtype(std::string_view name);

bool is_floating(DType dtype);
// The type of sums of products of `dtype`: f32 for bf16, else the type itself.
DType accumulation(DType dtype);

// Outermost dimension first, row-major. Images are (N, C, H, W). An empty shape is a scalar.
using Shape = std::vector<std::int64_t>;

// The product of the dimensions; 1 for a scalar.
std::int64_t element_count(const Shape& shape);
// "(200, 6, 24, 24)"
std::string to_string(const Shape& shape);

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;

  std::int64_t elements() const { return element_count(shape); }
  std::int64_t bytes() const { return elements() * size_of(dtype); }
  bool operator==(const TensorType&) const = default;
};
// Throws GraphError unless there are at most 8 dimensions, each at least 1, and at most 2^47 elements in all.
// The sizes of shapes that pass can be added, and multiplied by an element size, without overflow.
void check_shape(const Shape& shape);
// "f32 (200, 10)"
std::string to_string(const TensorType& type);

// A tensor of a safetensors file or of the backend contract. Owns its bytes, row-major; 64-byte alignment is
// not guaranteed.
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

// The elements of an f32 or f64 tensor as double. Throws CellError naming the tensor for another type.
std::vector<double> to_doubles(const HostTensor& tensor);

}  // namespace assay

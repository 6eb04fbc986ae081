#include "harness/core/tensor.hpp"

#include <array>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/error.hpp"

namespace assay {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::int64_t size;
};

constexpr std::array dtypes{DTypeInfo{DType::f64, "f64", 8}, DTypeInfo{DType::f32, "f32", 4},
                            DTypeInfo{DType::bf16, "bf16", 2}, DTypeInfo{DType::i32, "i32", 4},
                            DTypeInfo{DType::u8, "u8", 1}};

}  // namespace

std::int64_t size_of(DType dtype) { return dtypes.at(static_cast<std::size_t>(dtype)).size; }

std::string_view to_string(DType dtype) { return dtypes.at(static_cast<std::size_t>(dtype)).name; }

DType parse_dtype(std::string_view name) {
  for (const DTypeInfo& info : dtypes) {
    if (info.name == name) return info.dtype;
  }
  throw GraphError(
      fmt::format("unknown element type '{}'; known are f64, f32, bf16, i32, u8", name.substr(0, 40)));
}

bool is_floating(DType dtype) { return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16; }

DType accumulation(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) count *= dimension;
  return count;
}

std::string to_string(const Shape& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

void check_shape(const Shape& shape) {
  constexpr std::size_t max_rank = 8;
  constexpr std::int64_t max_elements = std::int64_t{1} << 47;
  if (shape.size() > max_rank) {
    throw GraphError(fmt::format("the shape has {} dimensions; the maximum is {}", shape.size(), max_rank));
  }
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension < 1)
      throw GraphError(fmt::format("shape {}: every dimension must be at least 1", to_string(shape)));
    if (dimension > max_elements / count) {
      throw GraphError(fmt::format("shape {}: more than 2^47 elements", to_string(shape)));
    }
    count *= dimension;
  }
}

std::string to_string(const TensorType& type) {
  return fmt::format("{} {}", to_string(type.dtype), to_string(type.shape));
}

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

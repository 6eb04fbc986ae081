// Numbers and tensors as the libraries describe them.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace assay::stand_in {

// bit: eight of them are a byte, the first one its lowest bit.
enum class Number : std::uint8_t { f32, bf16, bit };

// Of a number that is no bit.
inline std::int64_t size_of(Number number) { return number == Number::bf16 ? 2 : 4; }
inline std::int64_t bytes_of(Number number, std::int64_t count) {
  return number == Number::bit ? (count + 7) / 8 : count * size_of(number);
}

inline double load(const void* base, Number number, std::int64_t at) {
  if (number == Number::bit)
    return static_cast<double>(static_cast<const std::uint8_t*>(base)[at / 8] >> (at % 8) & 1);
  if (number == Number::f32) return static_cast<double>(static_cast<const float*>(base)[at]);
  const auto bits = static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(base)[at]) << 16;
  return static_cast<double>(std::bit_cast<float>(bits));
}

// Rounds to nearest, ties to even; a NaN stays one.
inline void store(void* base, Number number, std::int64_t at, double value) {
  if (number == Number::bit) {
    std::uint8_t& byte = static_cast<std::uint8_t*>(base)[at / 8];
    const auto place = static_cast<std::uint8_t>(1U << (at % 8));
    byte = static_cast<std::uint8_t>(value != 0 ? byte | place : byte & ~place);
    return;
  }
  const auto rounded = static_cast<float>(value);
  if (number == Number::f32) {
    static_cast<float*>(base)[at] = rounded;
    return;
  }
  const auto bits = std::bit_cast<std::uint32_t>(rounded);
  const std::uint32_t narrow =
      value != value ? bits >> 16 | 0x40U : (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  static_cast<std::uint16_t*>(base)[at] = static_cast<std::uint16_t>(narrow);
}

// As tensor cores read an f32: ten bits of its fraction, to nearest, ties away from zero.
inline float to_tf32(float value) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000U) & ~0x1fffU);
}

// Dimensions and strides, in elements. Its elements are numbered in row-major order of the dimensions.
struct Shaped {
  Number number = Number::f32;
  std::vector<std::int64_t> dims, strides;

  std::int64_t count() const {
    std::int64_t product = 1;
    for (const std::int64_t dim : dims) product *= dim;
    return product;
  }
  // The bytes from the first to the last element.
  std::int64_t bytes() const {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < dims.size(); ++d) last += (dims[d] - 1) * strides[d];
    return bytes_of(number, last + 1);
  }
  std::int64_t offset(std::int64_t element) const { return offset_in(dims, element); }
  // Of an element of a tensor with dimensions `shape`: where this one has 1, it is repeated.
  std::int64_t offset_in(const std::vector<std::int64_t>& shape, std::int64_t element) const {
    std::int64_t at = 0;
    for (std::size_t d = shape.size(); d-- > 0; element /= shape[d]) {
      if (dims[d] != 1) at += element % shape[d] * strides[d];
    }
    return at;
  }
  bool fits(const std::vector<std::int64_t>& shape) const {
    if (dims.size() != shape.size()) return false;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] != 1 && dims[d] != shape[d]) return false;
    }
    return true;
  }
  // Calls body(offset) for each element, in order.
  template <typename Body>
  void for_each_offset(const Body& body, std::size_t dim = 0, std::int64_t at = 0) const {
    if (dim == dims.size()) return body(at);
    if (dim + 1 == dims.size()) {
      for (std::int64_t i = 0; i < dims[dim]; ++i) body(at + i * strides[dim]);
      return;
    }
    for (std::int64_t i = 0; i < dims[dim]; ++i) for_each_offset(body, dim + 1, at + i * strides[dim]);
  }
  std::vector<float> read(const void* base) const {
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(count()));
    for_each_offset([&](std::int64_t at) { values.push_back(static_cast<float>(load(base, number, at))); });
    return values;
  }
};

}  // namespace assay::stand_in

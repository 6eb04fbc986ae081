// Accesses of 16 bytes: several neighbouring elements by one thread.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

template <typename T>
struct alignas(16) Vector {
  static constexpr int size = 16 / static_cast<int>(sizeof(T));
  T of[size];
};

// `from` and `to` are multiples of 16 bytes.
template <typename T>
ASSAY_HD Vector<T> load(const T* from) {
  return *reinterpret_cast<const Vector<T>*>(from);
}
// The same from anywhere.
template <typename T>
ASSAY_HD Vector<T> load(const T* from, bool aligned) {
  if (aligned) return load(from);
  Vector<T> values;
  for (int v = 0; v < Vector<T>::size; ++v) values.of[v] = from[v];
  return values;
}
template <typename T>
ASSAY_HD void store(T* to, const Vector<T>& values) {
  *reinterpret_cast<Vector<T>*>(to) = values;
}

// Null pointers, of absent operands, are aligned.
template <typename... T>
bool are_aligned(const T*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace assay::cuda

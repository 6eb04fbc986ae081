// C = A B, row-major, by one thread. Each element is summed over k in ascending order, so the result does not
// depend on how the rows are divided among threads.
#pragma once

#include <cstdint>

namespace assay::reference {

// A matrix in memory: element (row, column) is at data[row * row_stride + column * column_stride].
template <typename T>
struct View {
  const T* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

// The number of elements of T that `packed` must hold.
std::int64_t packed_elements(std::int64_t n, std::int64_t k);

// Arranges B (k, n) in panels, once for many rows of A.
template <typename T>
void pack(View<T> b, std::int64_t n, std::int64_t k, T* packed);

// c: (m, n) with rows `c_stride` apart. Adds to c if `accumulate`, otherwise overwrites it.
template <typename T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, View<T> a, const T* packed, T* c,
          std::int64_t c_stride, bool accumulate);

}  // namespace assay::reference

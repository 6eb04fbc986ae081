#include "backends/reference/gemm.hpp"

#include <algorithm>
#include <cstring>

namespace assay::reference {
namespace {

constexpr std::int64_t tile_rows = 8;  // of a tile
constexpr std::int64_t columns = 16;   // of a tile and of a panel

// a: (k, rows) packed; b: one panel (k, columns). The compiler maps the vectors of `width` bytes to those of
// the target; `height` rows at a time and two vectors of columns fit into its registers.
#define ASSAY_TILE(name, attribute, width, height)                                                   \
  template <typename T>                                                                              \
  attribute void name(std::int64_t k, const T* a, const T* b, T* tile) {                             \
    typedef T Vector __attribute__((vector_size(width), may_alias, aligned(alignof(T))));            \
    constexpr std::int64_t lanes = width / static_cast<std::int64_t>(sizeof(T));                     \
    constexpr std::int64_t vectors = columns / lanes, across = vectors < 2 ? vectors : 2;            \
    for (std::int64_t top = 0; top < tile_rows; top += height) {                                     \
      for (std::int64_t left = 0; left < vectors; left += across) {                                  \
        Vector sum[height][across] = {};                                                             \
        for (std::int64_t p = 0; p < k; ++p) {                                                       \
          Vector of_b[across];                                                                       \
          _Pragma("GCC unroll 2") for (std::int64_t v = 0; v < across; ++v) {                        \
            of_b[v] = *reinterpret_cast<const Vector*>(b + p * columns + (left + v) * lanes);        \
          }                                                                                          \
          _Pragma("GCC unroll 8") for (std::int64_t i = 0; i < height; ++i) {                        \
            _Pragma("GCC unroll 2") for (std::int64_t v = 0; v < across; ++v) {                      \
              sum[i][v] += a[p * tile_rows + top + i] * of_b[v];                                     \
            }                                                                                        \
          }                                                                                          \
        }                                                                                            \
        for (std::int64_t i = 0; i < height; ++i) {                                                  \
          for (std::int64_t v = 0; v < across; ++v) {                                                \
            *reinterpret_cast<Vector*>(tile + (top + i) * columns + (left + v) * lanes) = sum[i][v]; \
          }                                                                                          \
        }                                                                                            \
      }                                                                                              \
    }                                                                                                \
  }

ASSAY_TILE(tile_anywhere, , 32, 4)
#if defined(__x86_64__)
ASSAY_TILE(tile_avx2, __attribute__((target("avx2,fma"))), 32, 4)
ASSAY_TILE(tile_avx512, __attribute__((target("avx512f,fma"))), 64, 8)
#endif

template <typename T>
auto choose_tile() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return &tile_avx512<T>;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &tile_avx2<T>;
#endif
  return &tile_anywhere<T>;
}

constexpr std::int64_t depth = 512;    // of k at a time: a packed strip of A stays in the first cache
constexpr std::int64_t breadth = 128;  // of n at a time: that much of B stays in the second one

}  // namespace

std::int64_t packed_elements(std::int64_t n, std::int64_t k) {
  return (n + columns - 1) / columns * columns * k;
}

template <typename T>
void pack(View<T> b, std::int64_t n, std::int64_t k, T* packed) {
  for (std::int64_t j = 0; j < n; j += columns) {
    const std::int64_t width = std::min(columns, n - j);
    T* panel = packed + j * k;
    for (std::int64_t p = 0; p < k; ++p) {
      const T* from = b.data + p * b.row_stride + j * b.column_stride;
      T* to = panel + p * columns;
      if (b.column_stride == 1 && width == columns) {
        std::memcpy(to, from, columns * sizeof(T));
        continue;
      }
      for (std::int64_t i = 0; i < width; ++i) to[i] = from[i * b.column_stride];
      for (std::int64_t i = width; i < columns; ++i) to[i] = T(0);
    }
  }
}

template <typename T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, View<T> a, const T* packed, T* c,
          std::int64_t c_stride, bool accumulate) {
  static const auto tile = choose_tile<T>();
  T strip[depth * tile_rows];
  T block[tile_rows * columns];
  for (std::int64_t p = 0; p < std::max<std::int64_t>(k, 1); p += depth) {
    const std::int64_t thick = std::min(depth, k - p);
    const bool add = accumulate || p > 0;
    for (std::int64_t left = 0; left < n; left += breadth) {
      const std::int64_t right = std::min(left + breadth, n);
      for (std::int64_t i = 0; i < m; i += tile_rows) {
        const std::int64_t height = std::min(tile_rows, m - i);
        for (std::int64_t r = 0; r < tile_rows; ++r) {
          const T* from = a.data + (i + r) * a.row_stride + p * a.column_stride;
          for (std::int64_t q = 0; q < thick; ++q)
            strip[q * tile_rows + r] = r < height ? from[q * a.column_stride] : T(0);
        }
        for (std::int64_t j = left; j < right; j += columns) {
          tile(thick, strip, packed + j * k + p * columns, block);
          const std::int64_t width = std::min(columns, n - j);
          for (std::int64_t r = 0; r < height; ++r) {
            T* to = c + (i + r) * c_stride + j;
            for (std::int64_t s = 0; s < width; ++s)
              to[s] = add ? to[s] + block[r * columns + s] : block[r * columns + s];
          }
        }
      }
    }
  }
}

template void pack(View<float>, std::int64_t, std::int64_t, float*);
template void pack(View<double>, std::int64_t, std::int64_t, double*);
template void gemm(std::int64_t, std::int64_t, std::int64_t, View<float>, const float*, float*, std::int64_t,
                   bool);
template void gemm(std::int64_t, std::int64_t, std::int64_t, View<double>, const double*, double*,
                   std::int64_t, bool);

}  // namespace assay::reference

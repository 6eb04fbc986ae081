// Sums over the rows of a matrix, one per column, in two rounds with a fixed order.
#pragma once

#include "backends/cuda/kernels/launch.hpp"

namespace assay::cuda {

// The position of element (row, column): rows are the samples and pixels of an image, columns its channels.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::int64_t pixels = 1;                         // of a sample: row = sample * pixels + pixel
  std::int64_t sample = 0, pixel = 0, column = 0;  // elements between neighbours

  ASSAY_HD std::int64_t at(std::int64_t row, std::int64_t c) const {
    return row / pixels * sample + row % pixels * pixel + c * column;
  }
};

// A row-major matrix.
inline Matrix matrix_of_rows(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, 1, columns, 0, 1};
}

// Number of rows that one thread adds up in one column.
inline std::int64_t rows_of_part(const Matrix& matrix) {
  return ceil_div(matrix.rows, parts_of_sum(matrix.columns, matrix.rows));
}
inline std::int64_t parts_of(const Matrix& matrix) { return ceil_div(matrix.rows, rows_of_part(matrix)); }

template <typename T>
struct PartialColumnSum {
  Matrix matrix;
  const T* x;
  float* partial;  // (parts, columns)
  std::int64_t rows_each;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t part = i / matrix.columns, column = i % matrix.columns;
    float sum = 0;
    for (std::int64_t row = part * rows_each; row < smaller((part + 1) * rows_each, matrix.rows); ++row)
      sum += widen(x[matrix.at(row, column)]);
    partial[i] = sum;
  }
};

struct TotalColumnSum {
  const float* partial;
  float* sums;
  std::int64_t parts, columns;
  ASSAY_HD void operator()(std::int64_t column) const {
    float sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * columns + column];
    sums[column] = sum;
  }
};

inline std::int64_t column_sum_scratch(const Matrix& matrix) {
  return parts_of(matrix) * matrix.columns * static_cast<std::int64_t>(sizeof(float));
}

// sums[c] = the sum of x(row, c) over all rows.
template <typename T>
void column_sums(Stream stream, const Matrix& matrix, const T* x, float* sums, float* scratch) {
  const std::int64_t parts = parts_of(matrix);
  for_each(stream, parts * matrix.columns, PartialColumnSum<T>{matrix, x, scratch, rows_of_part(matrix)});
  for_each(stream, matrix.columns, TotalColumnSum{scratch, sums, parts, matrix.columns});
}

}  // namespace assay::cuda

// Sums over the rows of a matrix, one per column, in two rounds with a fixed order.
#pragma once

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/long_sum.hpp"

namespace assay::cuda {

// The position of element (row, column): rows are the samples and pixels of an image, columns its channels.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::int64_t pixels = 1;                         // of a sample: row = sample * pixels + pixel
  std::int64_t sample = 0, pixel = 0, column = 0;  // elements between neighbours

  // Whether the rows lie one after the other, with no gap between samples.
  ASSAY_HD bool is_dense() const { return sample == pixels * pixel; }
  ASSAY_HD std::int64_t at(std::int64_t row, std::int64_t c) const {
    if (is_dense()) return row * pixel + c * column;
    return row / pixels * sample + row % pixels * pixel + c * column;
  }
  // How many threads add up the rows of one column together: neighbours read neighbours, which are columns in
  // a row-major matrix, and pixels in planes.
  std::int64_t threads_each() const { return column == 1 ? 1 : 32; }
};

// A row-major matrix.
inline Matrix matrix_of_rows(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, 1, columns, columns, 1};
}

// Number of rows that are added up at once in one column.
inline std::int64_t rows_of_part(const Matrix& matrix) {
  return ceil_div(matrix.rows, parts_of_sum(matrix.columns, matrix.rows, matrix.threads_each()));
}
inline std::int64_t parts_of(const Matrix& matrix) { return ceil_div(matrix.rows, rows_of_part(matrix)); }

// body(threads, part * columns + column) for each part of each column.
template <typename Body>
void for_each_part(Stream stream, const Matrix& matrix, const Body& body) {
  const std::int64_t count = parts_of(matrix) * matrix.columns;
  if (matrix.threads_each() > 1) {
    for_each_row(stream, count, rows_of_part(matrix), body);
  } else {
    for_each(stream, count, ByOneThread<Body>{body});
  }
}

template <typename T>
struct PartialColumnSum {
  Matrix matrix;
  const T* x;
  float* partial;  // (parts, columns)
  std::int64_t rows_each;
  template <typename Threads>
  ASSAY_TEAM void operator()(const Threads& team, std::int64_t i) const {
    const std::int64_t part = i / matrix.columns, column = i % matrix.columns;
    const std::int64_t first = part * rows_each, end = smaller(first + rows_each, matrix.rows);
    const float sum = team.sum(
        long_sum(team, first, end, [&](std::int64_t row) { return widen(x[matrix.at(row, column)]); }));
    if (team.rank() == 0) partial[i] = sum;
  }
};

// The sum over all parts (parts, columns) of one column.
template <typename Threads>
ASSAY_TEAM float total_of_column(const Threads& team, const float* partial, std::int64_t parts,
                                 std::int64_t columns, std::int64_t column) {
  return team.sum(
      long_sum(team, 0, parts, [&](std::int64_t part) { return partial[part * columns + column]; }));
}

struct TotalColumnSum {
  const float* partial;
  float* sums;
  std::int64_t parts, columns;
  template <typename Threads>
  ASSAY_TEAM void operator()(const Threads& team, std::int64_t column) const {
    const float sum = total_of_column(team, partial, parts, columns, column);
    if (team.rank() == 0) sums[column] = sum;
  }
};

inline std::int64_t column_sum_scratch(const Matrix& matrix) {
  return parts_of(matrix) * matrix.columns * static_cast<std::int64_t>(sizeof(float));
}

// sums[c] = the sum of x(row, c) over all rows.
template <typename T>
void column_sums(Stream stream, const Matrix& matrix, const T* x, float* sums, float* scratch) {
  const std::int64_t parts = parts_of(matrix);
  for_each_part(stream, matrix, PartialColumnSum<T>{matrix, x, scratch, rows_of_part(matrix)});
  for_each_total(stream, matrix.columns, parts, TotalColumnSum{scratch, sums, parts, matrix.columns});
}

}  // namespace assay::cuda

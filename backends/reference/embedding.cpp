// Lookup of table rows, and the gradients.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

template <typename T>
Body<T> embedding(const Context& context) {
  const std::int64_t count = context.inputs[0].elements();
  const std::int64_t rows = context.in(1)[0], width = context.in(1)[1];
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    pool.run(count, std::max<std::int64_t>(1, grain / width), [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t s = begin; s < end; ++s) {
        const std::int64_t row = call.integers(0)[s];
        T* to = call.out(0) + s * width;
        if (row < 0 || row >= rows) {
          std::fill_n(to, width, T(0));
        } else {
          std::copy_n(call.in(1) + row * width, width, to);
        }
      }
    });
  }};
}

// Adds dy to a table in the order of the indices: each thread has its own columns.
template <typename T, typename Place>
void add_rows(ThreadPool& pool, const Call<T>& call, std::int64_t count, std::int64_t width, T* table,
              Place place) {
  pool.run(width, 8, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = 0; s < count; ++s) {
      const std::int64_t row = place(call.integers(0)[s]);
      if (row < 0) continue;
      for (std::int64_t d = begin; d < end; ++d) table[row * width + d] += call.in(1)[s * width + d];
    }
  });
}

template <typename T>
Body<T> embedding_gradient(const Context& context) {
  const std::int64_t count = context.inputs[0].elements();
  const std::int64_t rows = context.out(0)[0], width = context.out(0)[1];
  ThreadPool& pool = context.pool;
  return {[=, &pool](const Call<T>& call) {
    std::fill_n(call.out(0), rows * width, T(0));
    add_rows(pool, call, count, width, call.out(0),
             [rows](std::int64_t index) { return index < rows ? index : -1; });
  }};
}

template <typename T>
Body<T> embedding_row_gradient(const Context& context) {
  const std::int64_t count = context.inputs[0].elements();
  const std::int64_t kept = context.out(0)[0], width = context.out(0)[1];
  const std::int64_t rows = context.node.attributes.get<std::int64_t>("rows");
  ThreadPool& pool = context.pool;
  // For each row of the table, its position among the touched rows; -1: not touched.
  std::vector<std::int32_t> places(static_cast<std::size_t>(rows));
  return {[=, &pool](const Call<T>& call) mutable {
    std::ranges::fill(places, -1);
    for (std::int64_t s = 0; s < count; ++s) {
      const std::int64_t index = call.integers(0)[s];
      if (index >= 0 && index < rows) places[static_cast<std::size_t>(index)] = 0;
    }
    std::int32_t* touched = call.indices(1);
    std::fill_n(touched, kept, -1);
    std::int32_t next = 0;
    for (std::size_t row = 0; row < places.size(); ++row) {
      if (places[row] < 0) continue;
      touched[next] = static_cast<std::int32_t>(row);
      places[row] = next++;
    }
    std::fill_n(call.out(0), kept * width, T(0));
    add_rows(pool, call, count, width, call.out(0), [&](std::int64_t index) -> std::int64_t {
      return index < 0 || index >= rows ? -1 : places[static_cast<std::size_t>(index)];
    });
  }};
}

template <typename T>
Body<T> dense_rows(const Context& context) {
  const std::int64_t kept = context.in(0)[0], width = context.in(0)[1], rows = context.out(0)[0];
  return {[=](const Call<T>& call) {
    std::fill_n(call.out(0), rows * width, T(0));
    for (std::int64_t k = 0; k < kept; ++k) {
      const std::int64_t row = call.integers(1)[k];
      if (row >= 0 && row < rows) std::copy_n(call.in(0) + k * width, width, call.out(0) + row * width);
    }
  }};
}

}  // namespace

std::span<const OpEntry> embedding_ops() {
  static constexpr std::array entries{
      OpEntry{"embedding", embedding<float>, embedding<double>},
      OpEntry{"embedding_gradient", embedding_gradient<float>, embedding_gradient<double>},
      OpEntry{"embedding_row_gradient", embedding_row_gradient<float>, embedding_row_gradient<double>},
      OpEntry{"dense_rows", dense_rows<float>, dense_rows<double>}};
  return entries;
}

}  // namespace assay::reference

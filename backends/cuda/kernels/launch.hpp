// Runs a body over elements or rows: on the device if nvcc compiles it; in a loop on the host if the host's
// compiler does, for tests. Bodies are structs of values and pointers with an operator() marked ASSAY_HD.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/geometry.hpp"
#include "backends/cuda/kernels/team.hpp"
#if defined(__CUDACC__)
#include "backends/cuda/gpu/check.hpp"
#else
#include "backends/cuda/host/host_launch.hpp"
#endif

namespace assay::cuda {

// A cudaStream_t; on the host, the address of a HostStream, or null.
struct Stream {
  void* handle = nullptr;
};

#if defined(__CUDACC__)
template <typename Body>
__global__ void each_element(std::int64_t elements, const __grid_constant__ Body body) {
  const std::int64_t all = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += all)
    body(i);
}

template <typename Body>
__global__ void each_row(std::int64_t rows, const __grid_constant__ Body body) {
  __shared__ float partial[Team::max_threads];
  const Team team(partial);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) body(team, row);
}
#endif

#if !defined(__CUDACC__)
template <typename Work>
void launch_on_host(Stream stream, const Work& work) {
  auto* const host = static_cast<HostStream*>(stream.handle);
  if (host != nullptr) ++host->launches;
  if (host != nullptr && host->late != nullptr) {
    host->late->emplace_back(work);
  } else {
    work();
  }
}
#endif

// body(i) for i in [0, elements), in any order.
template <typename Body>
void for_each(Stream stream, std::int64_t elements, const Body& body) {
  if (elements <= 0) return;
#if defined(__CUDACC__)
  const Grid grid = grid_of_elements(elements);
  each_element<<<static_cast<unsigned>(grid.blocks), grid.threads, 0,
                 static_cast<cudaStream_t>(stream.handle)>>>(elements, body);
  ASSAY_CUDA(cudaGetLastError());
#else
  launch_on_host(stream, [elements, body] {
    if (!host_launches_plainly()) return host_launch_elements(elements, body);
    for (std::int64_t i = 0; i < elements; ++i) body(i);
  });
#endif
}

// body(team, row) for each row, by a team of threads that share the `width` elements of the row.
template <typename Body>
void for_each_row(Stream stream, std::int64_t rows, std::int64_t width, const Body& body) {
  if (rows <= 0) return;
#if defined(__CUDACC__)
  const Grid grid = grid_of_rows(rows, width);
  each_row<<<static_cast<unsigned>(grid.blocks), grid.threads, 0, static_cast<cudaStream_t>(stream.handle)>>>(
      rows, body);
  ASSAY_CUDA(cudaGetLastError());
#else
  launch_on_host(stream, [rows, width, body] {
    if (!host_launches_plainly()) return host_launch_rows(rows, grid_of_rows(rows, width), body);
    for (std::int64_t row = 0; row < rows; ++row) body(Team(), row);
  });
#endif
}

template <typename Body>
struct ByOneThread {
  Body body;
  ASSAY_TEAM void operator()(std::int64_t row) const { body(Alone(), row); }
};

// As for_each_row(), but a row of a few elements is the work of one thread: the last round of a reduction,
// over its parts. The body takes a Team and an Alone.
template <typename Body>
void for_each_total(Stream stream, std::int64_t rows, std::int64_t parts, const Body& body) {
  constexpr std::int64_t few = 16;
  if (parts > few) {
    for_each_row(stream, rows, parts, body);
  } else {
    for_each(stream, rows, ByOneThread<Body>{body});
  }
}

}  // namespace assay::cuda

// How the host runs what a GPU would launch: in a plain loop, or, for tests, in an order and with teams that a
// GPU may also have. From the environment, read once:
//
//   ASSAY_CUDA_HOST_ORDER    reversed, or a number: shuffled with this seed (default: ascending)
//   ASSAY_CUDA_HOST_TEAM     the most threads of a team, 1 or a multiple of 32 (default: 1), as fibres that
//                            switch at each barrier
//   ASSAY_CUDA_HOST_THREADS  the threads that share the elements of a launch (default: 1); teams stay on one
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backends/cuda/kernels/geometry.hpp"
#include "backends/cuda/kernels/team.hpp"

namespace assay::cuda {

// What a Stream's handle points to.
struct HostStream {
  std::int64_t launches = 0;
  std::vector<std::function<void()>>* late =
      nullptr;  // the launches are appended, and not run; null: run at once
};

// Whether a plain loop will do.
bool host_launches_plainly();

void host_launch_elements(std::int64_t elements, const std::function<void(std::int64_t)>& body);
// With teams of as many threads as `grid` has, at most the environment's.
void host_launch_rows(std::int64_t rows, const Grid& grid,
                      const std::function<void(const Team&, std::int64_t)>& body);

// body(team) by each thread of a team of `threads`, 1 or a multiple of 32, which are fibres of this thread. If not all of them reach a
// barrier, the process ends with a message: on a GPU they would wait for ever.
void run_team(int threads, const std::function<void(const Team&)>& body);

}  // namespace assay::cuda

// What a step of a network asks of a device.
#pragma once

#include <memory>

#include "backends/cuda/library.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "tests/unit/cuda/device_without_work.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay::cuda {

inline std::unique_ptr<CudaLibrary> library_without_work(Work& work, PrecisionKind precision) {
  return std::make_unique<CudaLibrary>(std::make_unique<DeviceWithoutWork>(work),
                                       precision == PrecisionKind::tf32);
}

// Launches and calls of a second step in graph mode. The network is small: their numbers do not depend on its size.
inline Work work_of_a_step(const Workload& workload, PrecisionKind precision, Task task = Task::train) {
  const Program program = workload.small.batch > 0 ? workload.build_small() : workload.build(2);
  CompileOptions options = assay::testing::options("graph", precision);
  options.task = task;
  options.gradients = false;
  Work work;
  KernelExecutable executable(program, options, library_without_work(work, precision));
  executable.set_state(assay::testing::parameters(program, 1));
  const assay::testing::Batch batch = assay::testing::batch(program, 1);
  executable.stage(0, batch.host());
  executable.step(0, 1e-2, 1);
  const Work before = work;
  executable.step(0, 1e-2, 2);
  work.stream.launches -= before.launches();
  work.calls -= before.calls;
  return work;
}

}  // namespace assay::cuda

// How many launches a training step takes: fusion must not be lost unnoticed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cuda/library.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "tests/unit/cuda/device_without_work.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay::cuda {
namespace {

struct Bound {
  const char* workload;
  PrecisionKind precision;
  std::int64_t launches;  // of our kernels, in a step
  std::int64_t calls;     // of the libraries
};
void PrintTo(const Bound& bound, std::ostream* stream) {
  *stream << bound.workload << ' ' << to_string(bound.precision);
}

class Launches : public ::testing::TestWithParam<Bound> {};

TEST_P(Launches, AreNoMoreThanTheBound) {
  const auto& [workload, precision, launches, calls] = GetParam();
  const Workload& found = find_workload(workload);
  const Program program = found.small.batch > 0 ? found.build_small() : found.build(2);
  CompileOptions options = assay::testing::options("graph", precision);
  options.gradients = false;
  Work work;
  KernelExecutable executable(program, options,
                              std::make_unique<CudaLibrary>(std::make_unique<DeviceWithoutWork>(work),
                                                            precision == PrecisionKind::tf32));
  executable.set_state(assay::testing::parameters(program, 1));
  const assay::testing::Batch batch = assay::testing::batch(program, 1);
  executable.stage(0, batch.host());
  executable.step(0, 1e-2, 1);
  const Work before = work;
  executable.step(0, 1e-2, 2);
  const std::int64_t launched = work.launches() - before.launches(), called = work.calls - before.calls;
  fmt::print("{} launches, {} calls\n", launched, called);
  EXPECT_LE(launched, launches);
  EXPECT_LE(called, calls);
  EXPECT_GT(launched, 0);
  EXPECT_GT(called, 0);
}

INSTANTIATE_TEST_SUITE_P(Steps, Launches,
                         ::testing::Values(Bound{"lenet5", PrecisionKind::fp32, 20, 14},
                                           Bound{"lenet5", PrecisionKind::bf16, 27, 14},
                                           Bound{"resnet56", PrecisionKind::bf16, 348, 173},
                                           Bound{"lstm", PrecisionKind::bf16, 18, 5},
                                           Bound{"nanogpt", PrecisionKind::bf16, 195, 103}));

}  // namespace
}  // namespace assay::cuda

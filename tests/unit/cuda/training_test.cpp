// Whole programs on the kernels of backend cuda, run in loops on the host, against the reference in fp64.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/library.hpp"
#include "backends/reference/reference_backend.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "tests/relative_error.hpp"
#include "tests/unit/cuda/program_case.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay::cuda {
namespace {

Program program_of(const std::string& workload) {
  return workload == "residual" ? testing::residual_program(3) : find_workload(workload).build(3);
}

class Training : public ::testing::TestWithParam<ProgramCase> {};

TEST_P(Training, agrees_with_the_reference_in_fp64) {
  const auto [workload, mode, precision] = GetParam();
  const double bound = precision == PrecisionKind::bf16 ? 0.15 : 5e-5;
  const Program program = program_of(workload);
  const CompileOptions options = testing::options(mode, precision);
  KernelExecutable ours(program, options, make_kernel_library(options));
  reference::ReferenceBackend oracle;
  const auto theirs = oracle.compile(program, testing::options("eager", PrecisionKind::fp64));
  const auto parameters = testing::parameters(program, 1);
  const testing::Batch batch = testing::batch(program, 1);
  for (Executable* executable : {static_cast<Executable*>(&ours), theirs.get()}) {
    executable->set_state(parameters);
    executable->stage(0, batch.host());
  }
  const auto got = ours.gradients(batch.host()), expected = theirs->gradients(batch.host());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(got[i].name, expected[i].name);
    // The bias in front of a batch norm has no gradient but rounding.
    if (std::string_view(workload) == "residual" && got[i].name == "gradient/conv2.bias") continue;
    EXPECT_LT(testing::relative_error(got[i], expected[i]), bound) << expected[i].name;
  }
  for (Executable* executable : {static_cast<Executable*>(&ours), theirs.get()}) {
    for (int step = 1; step <= 3; ++step) executable->step(0, 1e-2, step);
  }
  EXPECT_NEAR(ours.loss(), theirs->loss(), 10 * bound * std::abs(theirs->loss()));
}

INSTANTIATE_TEST_SUITE_P(Programs, Training,
                         ::testing::Values(ProgramCase{"mlp", "graph", PrecisionKind::fp32},
                                           ProgramCase{"mlp", "eager", PrecisionKind::fp32},
                                           ProgramCase{"lenet5", "graph", PrecisionKind::fp32},
                                           ProgramCase{"lenet5", "graph", PrecisionKind::tf32},
                                           ProgramCase{"lenet5", "eager", PrecisionKind::bf16},
                                           ProgramCase{"residual", "graph", PrecisionKind::fp32},
                                           ProgramCase{"residual", "graph", PrecisionKind::tf32},
                                           ProgramCase{"mlp", primitives_mode, PrecisionKind::fp32},
                                           ProgramCase{"lenet5", primitives_mode, PrecisionKind::fp32},
                                           ProgramCase{"lenet5", primitives_mode, PrecisionKind::bf16},
                                           ProgramCase{"residual", primitives_mode, PrecisionKind::fp32},
                                           ProgramCase{"residual", primitives_mode, PrecisionKind::tf32},
                                           ProgramCase{"residual", "eager", PrecisionKind::fp32}));

}  // namespace
}  // namespace assay::cuda

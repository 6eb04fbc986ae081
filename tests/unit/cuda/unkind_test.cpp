// Whole programs on a device that is as unkind as a GPU may be: the results must be those of the plain host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/library.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "tests/unit/cuda/program_case.hpp"
#include "tests/unit/cuda/unkind_device.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay::cuda {
namespace {

using ::testing::IsEmpty;

Program small_program(const std::string& workload) {
  if (workload == "residual") return testing::residual_program(3);
  const Workload& found = find_workload(workload);
  return found.small.batch > 0 ? found.build_small() : found.build(3);
}

CompileOptions options_of(const ProgramCase& c) {
  CompileOptions options = testing::options(c.mode, c.precision);
  options.deterministic = true;
  return options;
}

std::unique_ptr<KernelLibrary> unkind(const ProgramCase& c, Unkindness& seen) {
  return std::make_unique<CudaLibrary>(std::make_unique<UnkindDevice>(seen),
                                       c.precision == PrecisionKind::tf32);
}

// Trains on two batches in turn, with an evaluation in between, as a run does.
std::vector<HostTensor> trained(const Program& program, const CompileOptions& options,
                                std::unique_ptr<KernelLibrary> library) {
  KernelExecutable executable(program, options, std::move(library));
  executable.set_state(testing::parameters(program, 1));
  for (int slot = 0; slot < 2; ++slot) {
    testing::Batch batch = testing::batch(program, static_cast<std::uint64_t>(slot));
    executable.stage(slot, batch.host());
    std::ranges::fill(batch.inputs, 1e30F);  // the caller may reuse it
  }
  for (int step = 1; step <= 3; ++step) executable.step(step % 2, 1e-2, step);
  const Shape logits = program.inference.value(program.inference.output("logits")).type.shape;
  std::vector<HostTensor> results{HostTensor::zeros("logits", {DType::f32, logits})};
  executable.evaluate(testing::batch(program, 7).host(), results.front().as<float>().data());
  for (int step = 4; step <= 6; ++step) executable.step(step % 2, 1e-2, step);
  for (HostTensor& tensor : executable.state()) results.push_back(std::move(tensor));
  results.push_back(HostTensor::zeros("loss", {DType::f32, {}}));
  results.back().as<float>()[0] = static_cast<float>(executable.loss());
  return results;
}

class UnkindDeviceTest : public ::testing::TestWithParam<ProgramCase> {};

TEST_P(UnkindDeviceTest, HasTheResultsOfThePlainHost) {
  const Program program = small_program(GetParam().workload);
  const CompileOptions options = options_of(GetParam());
  const auto expected = trained(program, options, make_kernel_library(options));
  Unkindness seen;
  const auto found = trained(program, options, unkind(GetParam(), seen));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(found[i].bytes, expected[i].bytes) << expected[i].name;
  EXPECT_THAT(seen.faults, IsEmpty());
  EXPECT_EQ(seen.held, 0);
  EXPECT_GT(seen.allocations, 0);
}

INSTANTIATE_TEST_SUITE_P(Programs, UnkindDeviceTest,
                         ::testing::Values(ProgramCase{"residual", "graph", PrecisionKind::fp32},
                                           ProgramCase{"residual", "graph", PrecisionKind::bf16},
                                           ProgramCase{"residual", "eager", PrecisionKind::fp32},
                                           ProgramCase{"lenet5", "graph", PrecisionKind::fp32},
                                           ProgramCase{"lenet5", "eager", PrecisionKind::bf16},
                                           ProgramCase{"lstm", "graph", PrecisionKind::fp32},
                                           ProgramCase{"lstm", "graph", PrecisionKind::bf16},
                                           ProgramCase{"nanogpt", "graph", PrecisionKind::bf16}),
                         [](const auto& test) { return ::testing::PrintToString(test.param); });

class OutOfMemoryTest : public ::testing::TestWithParam<ProgramCase> {};

TEST_P(OutOfMemoryTest, EndsCleanlyAtEachAllocation) {
  const Program program = small_program(GetParam().workload);
  const CompileOptions options = options_of(GetParam());
  Unkindness whole;
  trained(program, options, unkind(GetParam(), whole));
  ASSERT_GT(whole.allocations, 4);
  for (std::int64_t n = 0; n < whole.allocations; ++n) {
    Unkindness seen;
    seen.fail_at = n;
    EXPECT_THROW(trained(program, options, unkind(GetParam(), seen)), OutOfMemory) << "allocation " << n;
    EXPECT_EQ(seen.held, 0) << "allocation " << n;
    EXPECT_THAT(seen.faults, IsEmpty()) << "allocation " << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, OutOfMemoryTest,
                         ::testing::Values(ProgramCase{"residual", "graph", PrecisionKind::fp32},
                                           ProgramCase{"mlp", "eager", PrecisionKind::fp32}),
                         [](const auto& test) { return ::testing::PrintToString(test.param); });

// What the device itself finds, planted.
TEST(Unkind, MemoryShowsBytesNextToATensorAndBatchesThatAreGone) {
  Unkindness seen;
  {
    UnkindDevice device(seen);
    Memory& memory = device.memory();
    auto* const pointer = static_cast<float*>(memory.allocate(12, "a test"));
    for_each(device.stream(), 4, [pointer](std::int64_t i) { pointer[i] = 1; });
    const float first[] = {1, 2}, second[] = {3, 4};
    const void* const gone = memory.land(first, sizeof first);
    memory.land(second, sizeof second);
    float read[2] = {};
    memory.fetch(read, gone, sizeof read);
    EXPECT_TRUE(std::isnan(read[0]));
    memory.release(pointer);
  }
  EXPECT_EQ(seen.faults.size(), 2U) << "at its release and at the end";
}

TEST(Unkind, RecordingsForbidWhatACaptureForbids) {
  Unkindness seen;
  UnkindDevice device(seen);
  EXPECT_THROW(device.record([&] { device.memory().allocate(8, "a test"); }, 0), std::logic_error);
}

}  // namespace
}  // namespace assay::cuda

// Whole programs on backend cuda as it is for a GPU, on the stand-in: the results must not depend on the order of the
// streams, nor on what was in memory before.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cuda/gpu/backend.hpp"
#include "backends/cuda/library.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "tests/nightly.hpp"
#include "tests/stand_in/program_case.hpp"
#include "tests/stand_in/scope.hpp"

namespace assay::cuda {
namespace {

using stand_in::Conditions;
using stand_in::Order;
using stand_in::Scope;
using ::testing::HasSubstr;

class Programs : public ::testing::TestWithParam<ProgramCase> {};

TEST_P(Programs, HaveTheSameBitsInEachOrder) {
  const Program program = small_program(GetParam().workload);
  const CompileOptions options = options_of(GetParam());
  std::vector<HostTensor> expected;
  for (const Order order : {Order::at_once, Order::others_last, Order::others_first, Order::shuffled}) {
    SCOPED_TRACE(name_of(order));
    const Scope scope({.order = order});
    const auto found = trained(program, options);
    if (expected.empty()) {
      expected = found;
      for (const HostTensor& tensor : found) {
        if (tensor.type.dtype != DType::f32) continue;
        EXPECT_TRUE(std::ranges::all_of(tensor.as<float>(), [](float x) { return std::isfinite(x); }))
            << tensor.name;
      }
    }
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(found[i].bytes, expected[i].bytes) << expected[i].name;
    EXPECT_GT(stand_in::allocations(), 0);
  }
}

std::vector<ProgramCase> all_networks() {
  if (!nightly()) return {};
  std::vector<ProgramCase> all;
  for (const Workload& workload : all_workloads()) {
    all.push_back({workload.name, "graph", PrecisionKind::bf16});
    all.push_back({workload.name, "eager", PrecisionKind::fp32});
  }
  // A search computes each convolution some hundred times.
  all.push_back({"resnet56", "graph", PrecisionKind::bf16, Search::measured});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Registry, Programs, ::testing::ValuesIn(all_networks()),
                         [](const auto& test) { return ::testing::PrintToString(test.param); });
INSTANTIATE_TEST_SUITE_P(
    Small, Programs,
    ::testing::Values(ProgramCase{"residual", "graph", PrecisionKind::fp32},
                      ProgramCase{"residual", "graph", PrecisionKind::tf32, Search::measured},
                      ProgramCase{"residual", "graph", PrecisionKind::bf16, Search::measured},
                      ProgramCase{"residual", "in-order", PrecisionKind::bf16},
                      ProgramCase{"residual", "eager", PrecisionKind::bf16},
                      ProgramCase{"residual", "primitives", PrecisionKind::fp32},
                      ProgramCase{"residual", "primitives", PrecisionKind::bf16},
                      ProgramCase{"residual", "primitives-captured", PrecisionKind::bf16},
                      ProgramCase{"mlp", "graph", PrecisionKind::fp32, Search::measured},
                      ProgramCase{"mlp", "eager", PrecisionKind::fp32},
                      ProgramCase{"mlp", "primitives", PrecisionKind::bf16},
                      ProgramCase{"lenet5", "graph", PrecisionKind::fp32, Search::measured},
                      ProgramCase{"lenet5", "eager", PrecisionKind::bf16},
                      ProgramCase{"lenet5", "primitives", PrecisionKind::tf32},
                      ProgramCase{"lstm", "graph", PrecisionKind::fp32, Search::measured},
                      ProgramCase{"lstm", "graph", PrecisionKind::bf16, Search::measured},
                      ProgramCase{"lstm", "eager", PrecisionKind::fp32},
                      ProgramCase{"lstm", "primitives", PrecisionKind::bf16},
                      ProgramCase{"nanogpt", "graph", PrecisionKind::bf16},
                      ProgramCase{"nanogpt", "graph", PrecisionKind::bf16, Search::measured}),
    [](const auto& test) { return ::testing::PrintToString(test.param); });

class MemoryCap : public ::testing::TestWithParam<const char*> {};

TEST_P(MemoryCap, IsEnoughAtThePeakAndNotBelow) {
  const Scope scope;
  const Program program = small_program("residual");
  CompileOptions options = options_of({"residual", GetParam(), PrecisionKind::fp32});
  std::int64_t peak = 0, capped = 0;
  trained(program, options, &peak);
  ASSERT_GT(peak, 0);
  options.memory_cap = peak;
  trained(program, options, &capped);
  EXPECT_EQ(capped, peak);
  options.memory_cap = peak - 1;
  EXPECT_THROW(trained(program, options), OutOfMemory);
}

INSTANTIATE_TEST_SUITE_P(Modes, MemoryCap, ::testing::Values("graph", "eager", "primitives"),
                         [](const auto& test) { return std::string(test.param); });

TEST(MemoryFraction, IsOfTheDevice) {
  const Scope scope({.device_bytes = 1 << 20});
  CompileOptions options = options_of({"residual", "graph", PrecisionKind::fp32});
  options.memory_fraction = 0.001;
  EXPECT_THROW(trained(small_program("residual"), options), OutOfMemory);
}

TEST(Device, IsUnavailableWithoutMemoryPools) {
  const Scope scope({.memory_pools = false});
  const CompileOptions options = options_of({"mlp", "graph", PrecisionKind::fp32});
  try {
    make_kernel_library(options);
    FAIL();
  } catch (const Unavailable& error) {
    EXPECT_THAT(error.what(), HasSubstr("memory pools"));
  }
}

// The backend as its worker has it.
TEST(Backend, NamesTheDeviceAndTheLibraries) {
  const Scope scope;
  CudaBackend backend;
  CompileOptions options = options_of({"lenet5", "graph", PrecisionKind::bf16});
  options.device = DeviceKind::cuda;
  const Program program = small_program("lenet5");
  EXPECT_EQ(backend.unsupported(program, options), "");
  EXPECT_NE(backend.compile(program, options), nullptr);
  const BackendInfo info = backend.info();
  EXPECT_EQ(info.settings.at("gpu"), "stand-in");
  EXPECT_EQ(info.settings.at("own_kernels_for_missing_engines"), "none");
  EXPECT_EQ(info.libraries.size(), 4U);
}

}  // namespace
}  // namespace assay::cuda

// The equivalence check of whole cells on the kernels of backend cuda, run in loops on the host, with our own products,
// or with all that the backend asks of CUDA, cuBLASLt and cuDNN on the stand-in for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#ifdef ASSAY_CUDA_STAND_IN
#include "backends/cuda/gpu/backend.hpp"
#endif
#include "backends/cuda/library.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "tests/nightly.hpp"
#include "tests/unit/engine/programs.hpp"
#include "tests/workloads/checked_cell.hpp"
#include "tests/workloads/trap_program.hpp"

namespace assay::cuda {
namespace {

#ifdef ASSAY_CUDA_STAND_IN
using BackendUnderTest = CudaBackend;
#else
class BackendUnderTest final : public Backend {
 public:
  BackendInfo info() const override { return {"cuda", "", {}, {}}; }
  std::string unsupported(const Program&, const CompileOptions&) const override { return {}; }
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override {
    return std::make_unique<KernelExecutable>(program, options, make_kernel_library(options));
  }
};
#endif

// With few samples and short sequences: the layers are the same.
Program small_program(const std::string& name) {
  if (name == "traps") return trap_program(24, {});
  if (name == "residual") return testing::residual_program(8);
  const Workload& found = find_workload(name);
  if (name == "lstm") return found.build(8, {40}, 2);
  if (name == "resnet56") return found.build(4);
  if (name == "mlp" || name == "lenet5") return found.build(16);
  return found.small.batch > 0 ? found.build_small() : found.build(4);
}

struct CheckedCase {
  std::string program, mode;
  PrecisionKind precision;
  bool searches = true;
};

std::string name_of(const ::testing::TestParamInfo<CheckedCase>& test) {
  std::string name =
      test.param.program + "_" + test.param.mode + "_" + std::string(to_string(test.param.precision));
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<CheckedCase> checked_cases() {
  std::vector<CheckedCase> all;
#ifdef ASSAY_CUDA_STAND_IN
  constexpr bool stand_in = true;
#else
  constexpr bool stand_in = false;
#endif
  std::vector<std::string> programs{"traps", "residual", "mlp"};
  if (!stand_in || nightly()) programs.emplace_back("lenet5");  // the stand-in searches for engines: a minute
  if (nightly()) programs.insert(programs.end(), {"lstm", "resnet56"});
  for (const std::string& program : programs) {
    for (const char* mode : {"graph", in_order_mode, "eager", primitives_mode, captured_primitives_mode}) {
      for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::tf32, PrecisionKind::bf16})
        all.push_back({program, mode, precision});
    }
  }
  if (stand_in && nightly()) {
    for (const Workload& workload : all_workloads()) {
      if (std::ranges::count(programs, workload.name) > 0) continue;
      for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16})
        all.push_back({workload.name, "graph", precision, false});  // a search would take minutes
    }
  }
  // docs/explanation/equivalence.md has no bound for an LSTM under tf32.
  std::erase_if(
      all, [](const CheckedCase& c) { return c.program == "lstm" && c.precision == PrecisionKind::tf32; });
  return all;
}

class Checked : public ::testing::TestWithParam<CheckedCase> {};

TEST_P(Checked, agrees_with_the_oracle) {
  const CheckedCase& c = GetParam();
  for (const Task task : {Task::train, Task::infer}) {
    BackendUnderTest backend;
    const Judged judged =
        judge_backend(backend, small_program(c.program),
                      {.task = task, .mode = c.mode, .precision = c.precision, .deterministic = !c.searches});
    EXPECT_TRUE(judged.passed()) << to_string(task) << '\n' << judged.text();
    std::printf("%s: worst ratio %.2f\n", to_string(task).data(), judged.worst());
  }
}

class Decoding : public ::testing::TestWithParam<CheckedCase> {};

TEST_P(Decoding, agrees_with_the_full_forward_pass) {
  const CheckedCase& c = GetParam();
  const Program program = find_workload(c.program).build_small(Task::decode);
  BackendUnderTest backend;
  const Judged judged = judge_backend(
      backend, program,
      {.task = Task::decode, .mode = c.mode, .precision = c.precision, .distinct = 2, .deterministic = true});
  EXPECT_TRUE(judged.passed()) << judged.text();
}

INSTANTIATE_TEST_SUITE_P(Cells, Decoding,
                         ::testing::Values(CheckedCase{"nanogpt", "graph", PrecisionKind::fp32},
                                           CheckedCase{"nanogpt", "graph", PrecisionKind::bf16},
                                           CheckedCase{"nanogpt", "eager", PrecisionKind::fp32},
                                           CheckedCase{"nanogpt", primitives_mode, PrecisionKind::fp32},
                                           CheckedCase{"nanogpt", primitives_mode, PrecisionKind::bf16}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Cells, Checked, ::testing::ValuesIn(checked_cases()), name_of);

}  // namespace
}  // namespace assay::cuda

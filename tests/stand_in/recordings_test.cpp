// When a list of kernels becomes a graph of CUDA.
#include "tests/stand_in/program_case.hpp"
#include "tests/stand_in/scope.hpp"
#include "workloads/ops/op_workload.hpp"

namespace assay::cuda {
namespace {

using stand_in::Scope;
using ::testing::HasSubstr;
using ::testing::Not;

// One launch.
class OneLaunch final : public Kernel {
 public:
  explicit OneLaunch(Memory& memory, Stream stream) : to_(memory, 4, "a test"), stream_(stream) {}
  void bind(std::span<void* const>, std::span<void* const>, void*) override {}
  void run() override {
    auto* const to = static_cast<float*>(to_.data());
    for_each(stream_, std::int64_t{1}, [to](std::int64_t i) { to[i] = 1; });
  }

 private:
  Storage to_;
  Stream stream_;
};

class Open final : public CudaLibrary {
 public:
  Open() : CudaLibrary(open_device({}), false) {}
  Stream stream() { return context().device.stream(); }
};

// A graph of fewer launches costs the host more than the launches do.
TEST(Recording, TakesFiveLaunches) {
  const Scope scope;
  Open library;
  OneLaunch launch(library.memory(), library.stream());
  launch.run();
  library.synchronize();
  const std::vector<Kernel*> four(4, &launch), five(5, &launch);
  EXPECT_EQ(library.record(four, {}), nullptr);
  EXPECT_THAT(stand_in::held(), Not(HasSubstr("graphs")));
  const auto recording = library.record(five, {});
  ASSERT_NE(recording, nullptr);
  EXPECT_THAT(stand_in::held(), HasSubstr("executable graphs: 1"));
  recording->run();
  library.synchronize();
}

// What a program holds after steps on one batch.
std::string held_after_steps(const Program& program, Task task) {
  CompileOptions options = options_of({"", "graph", PrecisionKind::fp32});
  options.task = task;
  options.gradients = task == Task::train;
  KernelExecutable executable(program, options, make_kernel_library(options));
  executable.set_state(testing::parameters(program, 1));
  const testing::Batch batch = testing::batch(program, 1);
  executable.stage(0, batch.host());
  for (int step = 1; step <= 3; ++step) executable.step(0, 1e-2, step);
  executable.synchronize();
  return stand_in::held();
}

TEST(Recording, IsOfAStepWithMoreThanAFewLaunches) {
  const Scope scope;
  EXPECT_THAT(held_after_steps(small_program("mlp"), Task::train), HasSubstr("executable graphs: 1"));
  EXPECT_THAT(held_after_steps(find_op_workload("op/relu").program("64"), Task::infer),
              Not(HasSubstr("executable graphs")));
}

}  // namespace
}  // namespace assay::cuda

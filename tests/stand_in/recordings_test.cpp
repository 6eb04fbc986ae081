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

// On the device alone; and the steps that it recorded compute what a step computes.
TEST(DeviceTimes, AreOfTheStepsOfASingleOp) {
  for (const char* mode : {"graph", "primitives", "eager"}) {
    SCOPED_TRACE(mode);
    const Scope scope;
    const Program program = find_op_workload("op/relu").program("64");
    CompileOptions options = options_of({"", mode, PrecisionKind::fp32});
    options.task = Task::infer;
    KernelExecutable executable(program, options, make_kernel_library(options));
    for (std::int64_t slot = 0; slot < 3; ++slot)
      executable.stage(slot, testing::batch(program, static_cast<std::uint64_t>(slot + 1)).host());
    for (int step = 1; step <= 5; ++step) executable.step(step % 2, 0, step);
    executable.step(2, 0, 6);
    const std::vector<std::byte> of_the_last = executable.results().front().bytes;
    executable.step(0, 0, 7);
    ASSERT_NE(executable.results().front().bytes, of_the_last);
    if (mode == std::string("eager")) {
      EXPECT_THROW(executable.device_times(), Unsupported);
      continue;
    }
    const DeviceTimes times = executable.device_times();
    EXPECT_EQ(times.steps % 3, 0) << "whole passes over the operands";
    EXPECT_EQ(executable.results().front().bytes, of_the_last);
    // The clock of the stand-in counts a launch as a microsecond.
    ASSERT_EQ(times.step_seconds.size(), 5U);
    for (const double seconds : times.step_seconds) EXPECT_NEAR(seconds, 1e-6, 1e-7);
  }
}

// A step of several launches is captured with its branches, as the steps that were timed were, and waits for the one before.
TEST(DeviceTimes, AreOfStepsWithBranches) {
  for (const auto order : {stand_in::Order::at_once, stand_in::Order::shuffled}) {
    const Scope scope({.order = order});
    const Program program = find_op_workload("op/lstm").program("n1t2h4");
    CompileOptions options = options_of({"", "graph", PrecisionKind::fp32});
    KernelExecutable executable(program, options, make_kernel_library(options));
    executable.set_state({});
    constexpr std::int64_t slots = 3;
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      std::vector<float> operands(static_cast<std::size_t>(input_elements(*program.training)));
      for (std::size_t i = 0; i < operands.size(); ++i)
        operands[i] = testing::noise(static_cast<std::uint64_t>(slot + 1), i);
      executable.stage(slot, {operands.data(), nullptr});
    }
    for (int step = 1; step <= 4; ++step) executable.step((step + 1) % slots, 0, step);
    ASSERT_THAT(stand_in::held(), HasSubstr("executable graphs"));
    executable.step(2, 0, 5);
    const std::vector<HostTensor> of_the_last = executable.results();
    executable.step(0, 0, 6);
    ASSERT_NE(executable.results().front().bytes, of_the_last.front().bytes);
    const DeviceTimes times = executable.device_times();
    EXPECT_EQ(times.steps % slots, 0);
    const std::vector<HostTensor> left = executable.results();
    ASSERT_EQ(left.size(), of_the_last.size());
    for (std::size_t i = 0; i < left.size(); ++i)
      EXPECT_EQ(left[i].bytes, of_the_last[i].bytes) << left[i].name;
  }
}

}  // namespace
}  // namespace assay::cuda

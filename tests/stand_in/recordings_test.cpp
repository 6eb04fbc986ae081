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
  EXPECT_EQ(library.record(four), nullptr);
  EXPECT_THAT(stand_in::held(), Not(HasSubstr("graphs")));
  const auto recording = library.record(five);
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

// The result of the last of many steps of a single op over some slots, and what is held then.
struct Stepped {
  std::vector<float> result;
  std::string held;
};
Stepped stepped(const char* mode, std::int64_t slots, std::int64_t steps) {
  const Scope scope;
  const Program program = find_op_workload("op/relu").program("64");
  CompileOptions options = options_of({"", mode, PrecisionKind::fp32});
  options.task = Task::infer;
  KernelExecutable executable(program, options, make_kernel_library(options));
  for (std::int64_t slot = 0; slot < slots; ++slot)
    executable.stage(slot, testing::batch(program, static_cast<std::uint64_t>(slot)).host());
  for (std::int64_t step = 0; step < steps; ++step) executable.step(step % slots, 0, step + 1);
  const HostTensor result = executable.results().front();
  return {{result.as<float>().begin(), result.as<float>().end()}, stand_in::held()};
}

// One launch of 64 steps takes the host as long as one of one step.
TEST(Recording, IsOfManyStepsOfASingleOp) {
  for (const std::int64_t slots : {1, 3, 64, 150}) {
    for (const std::int64_t steps : {400, 401, 450, 63}) {
      SCOPED_TRACE(fmt::format("{} steps over {} slots", steps, slots));
      EXPECT_EQ(stepped("graph", slots, steps).result, stepped("eager", slots, steps).result);
    }
  }
  EXPECT_THAT(stepped("graph", 1, 400).held, HasSubstr("executable graphs: 1"));
  EXPECT_THAT(stepped("graph", 3, 400).held, HasSubstr("executable graphs: 1"));
  EXPECT_THAT(stepped("graph", 150, 400).held, HasSubstr("executable graphs: 3"));
  EXPECT_THAT(stepped("primitives-captured", 3, 400).held, HasSubstr("executable graphs: 1"));
  EXPECT_THAT(stepped("primitives", 3, 400).held, Not(HasSubstr("executable graphs")));
  EXPECT_THAT(stepped("eager", 3, 400).held, Not(HasSubstr("executable graphs")));
}

// Steps that wait for a whole group are done before anything is read or written.
TEST(Recording, OfManyStepsLeavesNoneBehind) {
  const Scope scope;
  const Program program = find_op_workload("op/relu").program("64");
  CompileOptions options = options_of({"", "graph", PrecisionKind::fp32});
  options.task = Task::infer;
  KernelExecutable executable(program, options, make_kernel_library(options));
  const auto staged = [&](std::uint64_t seed) {
    testing::Batch batch = testing::batch(program, seed);
    executable.stage(0, batch.host());
    for (float& value : batch.inputs) value = std::max(value, 0.0F);
    return batch.inputs;
  };
  const auto result = [&] {
    const HostTensor tensor = executable.results().front();
    return std::vector<float>(tensor.as<float>().begin(), tensor.as<float>().end());
  };
  std::vector<float> expected = staged(1);
  for (int step = 1; step <= 10; ++step) executable.step(0, 0, step);
  EXPECT_EQ(result(), expected);
  executable.step(0, 0, 11);
  executable.synchronize();
  EXPECT_EQ(result(), expected);
  executable.step(0, 0, 12);
  const std::vector<float> next = staged(2);
  EXPECT_EQ(result(), expected) << "of the batch that was staged when the step was asked for";
  executable.step(0, 0, 13);
  EXPECT_EQ(result(), next);
  EXPECT_THROW(executable.step(7, 0, 14), std::logic_error) << "nothing is staged there";
}

}  // namespace
}  // namespace assay::cuda

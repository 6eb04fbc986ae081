// How many steps are recorded to time a device alone.
#include "harness/engine/device_times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "harness/engine/kernel_executable.hpp"
#include "tests/unit/engine/forwarding_library.hpp"
#include "tests/unit/engine/programs.hpp"
#include "workloads/ops/op_workload.hpp"

namespace assay {
namespace {

using namespace testing;
using ::testing::HasSubstr;

// A device on which each step takes as long.
class Clock final : public Recording {
 public:
  Clock(double step, std::int64_t steps) : seconds_(step * static_cast<double>(steps)) {}
  void run() override {}
  double seconds() override { return seconds_; }

 private:
  double seconds_;
};

struct Asked {
  std::vector<std::int64_t> steps;
  DeviceTimes times;
};

Asked ask(std::int64_t slots, std::int64_t kernels, double step) {
  Asked asked;
  asked.times = times_of(slots, kernels, [&](std::int64_t steps) -> std::unique_ptr<Recording> {
    asked.steps.push_back(steps);
    return std::make_unique<Clock>(step, steps);
  });
  EXPECT_EQ(asked.steps.front(), 1);
  EXPECT_EQ(asked.times.step_seconds.size(), step > 1 ? 3U : 5U);
  EXPECT_EQ(asked.steps.back(), asked.times.steps);
  for (const double seconds : asked.times.step_seconds) EXPECT_NEAR(seconds, step, 1e-9 * step);
  return asked;
}

TEST(DeviceTimes, AreOfARunOfTwentyMilliseconds) { EXPECT_EQ(ask(1, 1, 1e-5).times.steps, 2000); }

// A launch takes some microseconds, which are much of a short run.
TEST(DeviceTimes, AreEstimatedFromARunThatHidesItsLaunch) {
  EXPECT_EQ(ask(1, 1, 1e-5).steps, (std::vector<std::int64_t>{1, 8, 64, 512, 2000}));
  EXPECT_EQ(ask(1, 1, 2e-3).steps, (std::vector<std::int64_t>{1, 10}));
}

TEST(DeviceTimes, AreOfWholePassesOverTheOperands) {
  EXPECT_EQ(ask(300, 1, 1e-5).times.steps, 1800);
  EXPECT_EQ(ask(5000, 1, 1e-5).times.steps, 5000) << "a pass takes 50 ms";
  EXPECT_EQ(ask(16, 1, 1e-2).times.steps, 16);
}

TEST(DeviceTimes, AreOfAPartOfThemIfAPassTakesLong) {
  EXPECT_EQ(ask(1000, 1, 1e-2).times.steps, 20);
  EXPECT_EQ(ask(8, 1, 0.5).times.steps, 1);
}

TEST(DeviceTimes, AreOfABoundedNumberOfKernels) {
  EXPECT_EQ(ask(1, 1, 1e-9).times.steps, 1 << 16);
  EXPECT_EQ(ask(1, 8, 1e-9).times.steps, 1 << 13);
  EXPECT_EQ(ask(4, 1, 0).times.steps, 1 << 16);
  EXPECT_EQ(ask(1, 1 << 20, 1e-6).times.steps, 1);
}

TEST(DeviceTimes, AreNotOfOperandsThatCachesWouldHold) {
  EXPECT_EQ(ask(1 << 14, 4, 1e-6).times.steps, 1 << 14);
  EXPECT_THROW(ask(1 << 14, 8, 1e-6), Unsupported);
  EXPECT_THROW(ask(1 << 17, 1, 1e-6), Unsupported);
  EXPECT_EQ(ask(1 << 14, 8, 1e-4).times.steps, 2000) << "in 0.2 s of steps";
}

TEST(DeviceTimes, AreFewerOfALongStep) { EXPECT_EQ(ask(1, 1, 2).times.step_seconds.size(), 3U); }

// Runs the steps that it is asked to record.
class Recorder final : public ForwardingLibrary {
 public:
  Recorder(const CompileOptions& options, std::int64_t& recorded)
      : ForwardingLibrary(options), recorded_(recorded) {}
  std::unique_ptr<Recording> record_steps(std::span<Kernel* const> kernels, const Needs&, std::int64_t steps,
                                          const std::function<void(std::int64_t)>& bind) override {
    for (std::int64_t step = 0; step < steps; ++step) {
      bind(step);
      run(kernels);
    }
    recorded_ = steps;
    return std::make_unique<Clock>(1e-3, steps);
  }

 private:
  std::int64_t& recorded_;
};

class Timed : public ::testing::Test {
 protected:
  KernelExecutable compiled(const char* mode, bool records) {
    CompileOptions how = options(mode);
    how.task = Task::infer;
    std::unique_ptr<KernelLibrary> library = std::make_unique<ForwardingLibrary>(how);
    if (records) library = std::make_unique<Recorder>(how, recorded_);
    KernelExecutable executable(program_, how, std::move(library));
    for (std::int64_t slot = 0; slot < 3; ++slot)
      executable.stage(slot, batch(program_, static_cast<std::uint64_t>(slot + 1)).host());
    return executable;
  }

  static std::string reason(KernelExecutable& executable) {
    try {
      executable.device_times();
    } catch (const Unsupported& error) {
      return error.what();
    }
    return "";
  }

  const Program program_ = find_op_workload("op/relu").program("64");
  std::int64_t recorded_ = 0;
};

TEST_F(Timed, OpIsRecordedOverItsOperandsInTurn) {
  KernelExecutable executable = compiled("graph", true);
  executable.step(0, 0, 1);
  const DeviceTimes times = executable.device_times();
  EXPECT_EQ(times.steps, 18) << "whole passes over three operands, in about 20 ms";
  EXPECT_EQ(recorded_, 18);
  // The last one is that of slot 2.
  const std::vector<std::byte> left = executable.results().front().bytes;
  executable.step(2, 0, 2);
  EXPECT_EQ(executable.results().front().bytes, left);
  executable.step(1, 0, 3);
  EXPECT_NE(executable.results().front().bytes, left);
}

TEST_F(Timed, OpSaysWhyItHasNoTimesOfADevice) {
  KernelExecutable graph = compiled("graph", false), eager = compiled("eager", false);
  EXPECT_THAT(reason(graph), HasSubstr("no step has run"));
  graph.step(0, 0, 1);
  EXPECT_THAT(reason(graph), HasSubstr("no device apart from the host"));
  CompileOptions how = options("graph");
  how.task = Task::infer;
  const Program network = find_workload("mlp").build(3);
  KernelExecutable of_network(network, how, std::make_unique<ForwardingLibrary>(how));
  EXPECT_THAT(reason(of_network), HasSubstr("only a single op"));
  eager.step(0, 0, 1);
  EXPECT_THAT(reason(eager), HasSubstr("--mode graph"));
}

}  // namespace
}  // namespace assay

// What depends only on parameters, in inference: computed once for each state.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/engine/kernel_executable.hpp"
#include "tests/unit/engine/forwarding_library.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay {
namespace {

using namespace testing;

class Keeping final : public ForwardingLibrary {
 public:
  Keeping(const CompileOptions& options, bool keeps) : ForwardingLibrary(options), keeps_(keeps) {}
  bool keeps_constants() const override { return keeps_; }

 private:
  bool keeps_;
};

class Constants : public ::testing::Test {
 protected:
  static CompileOptions inference() {
    CompileOptions how = options("graph", PrecisionKind::bf16);
    how.task = Task::infer;
    how.profile = true;
    return how;
  }
  KernelExecutable compiled(bool keeps, const CompileOptions& how) const {
    return KernelExecutable(program_, how, std::make_unique<Keeping>(how, keeps));
  }
  std::vector<float> logits(Executable& executable) const {
    const Batch fed = batch(program_, 5);
    std::vector<float> values(3 * 10);
    executable.evaluate(fed.host(), values.data());
    return values;
  }
  static std::int64_t casts(const Executable& executable) {
    return std::ranges::count(executable.operator_times(), "cast", &OperatorTime::op);
  }

  const Program program_ = find_workload("mlp").build(3);
};

TEST_F(Constants, LeaveTheStepOfAnInference) {
  const KernelExecutable plain = compiled(false, inference()), keeping = compiled(true, inference());
  const auto weights = std::ranges::count_if(program_.inference.values(), [](const Value& value) {
    return value.role == Role::parameter && value.type.shape.size() == 2;
  });
  EXPECT_EQ(casts(plain) - casts(keeping), weights);
  EXPECT_GT(keeping.memory().at("constants"), 0);
  EXPECT_FALSE(plain.memory().contains("constants"));
}

TEST_F(Constants, FollowTheState) {
  KernelExecutable plain = compiled(false, inference()), keeping = compiled(true, inference());
  std::vector<float> before;
  for (const std::uint64_t seed : {1U, 2U}) {
    for (KernelExecutable* executable : {&plain, &keeping}) executable->set_state(parameters(program_, seed));
    for (int run = 0; run < 2; ++run) EXPECT_EQ(logits(keeping), logits(plain));
    EXPECT_NE(logits(keeping), before);
    before = logits(keeping);
  }
}

// Its other graphs change the parameters.
TEST_F(Constants, StayInTheStepsOfATraining) {
  CompileOptions how = options("graph", PrecisionKind::bf16);
  how.profile = true;
  KernelExecutable plain = compiled(false, how), keeping = compiled(true, how);
  EXPECT_EQ(casts(keeping), casts(plain));
  for (KernelExecutable* executable : {&plain, &keeping}) {
    const Batch fed = batch(program_, 5);
    executable->set_state(parameters(program_, 1));
    executable->stage(0, fed.host());
  }
  for (int step = 1; step <= 2; ++step) {
    for (KernelExecutable* executable : {&plain, &keeping}) executable->step(0, 1e-2, step);
    EXPECT_EQ(logits(keeping), logits(plain));
  }
}

}  // namespace
}  // namespace assay

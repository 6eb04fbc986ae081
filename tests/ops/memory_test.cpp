// Long runs on the kernel library that this program is linked with.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>

#include "tests/nightly.hpp"
#include "tests/ops/training_run.hpp"

namespace assay::ops {
namespace {

// The bytes that malloc has given out and that were not freed, over all threads.
std::int64_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

class Memory : public NeedsDevice<::testing::TestWithParam<std::string>> {
  void SetUp() override {
    if (!nightly()) GTEST_SKIP() << "it takes minutes: scripts/test --nightly";
    NeedsDevice::SetUp();
  }
};

void expect_constant(TrainingRun training, std::int64_t first, std::int64_t steps) {
  training.run(first);
  const std::int64_t heap = heap_bytes(), resident = resident_bytes();
  training.run(steps);
  EXPECT_LT(heap_bytes() - heap, 4096) << "over " << steps << " steps";
  // The system counts pages per thread and adds them up late.
  EXPECT_LT(resident_bytes() - resident, 1 << 20);
}

TEST_P(Memory, DoesNotGrowOver10000StepsOfMlp) {
  expect_constant({find_workload("mlp").build(32), GetParam(), 1}, 500, 10000);
}

TEST_P(Memory, DoesNotGrowOver300StepsOfResnet56) {
  expect_constant({find_workload("resnet56").build(8), GetParam(), 1}, 20, 300);
}

INSTANTIATE_TEST_SUITE_P(Modes, Memory, ::testing::ValuesIn(under_test::all_modes()),
                         [](const auto& mode) { return mode.param; });

}  // namespace
}  // namespace assay::ops

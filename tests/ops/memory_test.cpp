// Ten thousand steps on the kernel library that this program is linked with.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>

#include "tests/ops/training_run.hpp"

namespace assay::ops {
namespace {

// What malloc has given out and not got back, over all threads.
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

class Memory : public ::testing::TestWithParam<std::string> {};

TEST_P(Memory, does_not_grow_over_ten_thousand_steps) {
  TrainingRun training(find_workload("mlp").build(32), GetParam(), 1);
  training.run(500);
  const std::int64_t heap = heap_bytes(), resident = resident_bytes();
  training.run(10000);
  EXPECT_LT(heap_bytes() - heap, 10000) << "that is a byte a step";
  // The system counts pages per thread and adds them up late.
  EXPECT_LT(resident_bytes() - resident, 1 << 20);
}

INSTANTIATE_TEST_SUITE_P(Modes, Memory, ::testing::Values("graph", "eager"),
                         [](const auto& mode) { return mode.param; });

}  // namespace
}  // namespace assay::ops

#include "harness/protocol/step_counter.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

TEST(StepCounter, IsReadWhileItCounts) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / step_counter_file;
  EXPECT_FALSE(read_step_counter(file));
  StepCounter counter(file, 240);
  EXPECT_EQ(read_step_counter(file)->done, 0);
  counter.set(7);
  EXPECT_EQ(read_step_counter(file)->done, 7);
  EXPECT_EQ(read_step_counter(file)->planned, 240);
  counter.set(241);
  EXPECT_FALSE(read_step_counter(file)) << "more than planned";
}

TEST(StepCounter, CountsNothingWhereItsFileCannotBe) {
  StepCounter counter("/proc/none/steps", 240);
  counter.set(7);
  EXPECT_FALSE(read_step_counter("/proc/none/steps"));
}

TEST(StepCounter, IgnoresAFileOfAnotherLength) {
  const TemporaryFolder folder;
  std::ofstream(folder / "steps") << "7 of 240";
  EXPECT_FALSE(read_step_counter(folder / "steps"));
}

}  // namespace
}  // namespace assay

// How long processors were idle: from a made /proc/stat, and from that of this machine.
#include "harness/core/processor_times.hpp"

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t tick_ns = 10'000'000;

ProcessorTimes times_in(const std::string& text, const std::vector<int>& processors) {
  const TemporaryFolder folder;
  std::ofstream(folder / "stat") << text;
  return ProcessorTimesReader(processors, folder / "stat").read();
}

TEST(ProcessorTimes, AreSumsOverTheGivenProcessors) {
  const std::string text =
      "cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 10 20 30 40 50 60 70 80 0 0\ncpu1 9 9 9 9 9 9 9 9 0 0\n"
      "cpu2 0 0 0 1 2 0 0 3 0 0\nintr 1 2 3\n";
  const ProcessorTimes one = times_in(text, {0});
  EXPECT_EQ(one.count, 1);
  EXPECT_EQ(one.idle_ns, (40 + 50) * tick_ns) << "idle and waiting for disks";
  EXPECT_EQ(one.steal_ns, 80 * tick_ns);
  const ProcessorTimes two = times_in(text, {2, 0});
  EXPECT_EQ(two.count, 2);
  EXPECT_EQ(two.idle_ns, (40 + 50 + 1 + 2) * tick_ns);
  EXPECT_EQ(two.steal_ns, 83 * tick_ns);
  EXPECT_EQ(times_in(text, {7, -1, 1 << 20}).count, 0);
}

TEST(ProcessorTimes, AreUnknownWithoutTheFileOrInAnotherForm) {
  const TemporaryFolder folder;
  EXPECT_EQ(ProcessorTimesReader(std::vector{0}, folder / "nothing").read().count, 0);
  const ProcessorTimes times = times_in("cpu0 1 2 3\ncpu1 a b c d e f g h\ncpu2", {0, 1, 2});
  EXPECT_EQ(times.count, 0);
  EXPECT_EQ(times.idle_ns, 0);
}

TEST(AllowedProcessors, AreThoseOfTheThread) {
  cpu_set_t before;
  ::sched_getaffinity(0, sizeof before, &before);
  const int last = allowed_processors().back();
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<std::size_t>(last), &only);
  ::sched_setaffinity(0, sizeof only, &only);
  const std::vector<int> allowed = allowed_processors();
  ::sched_setaffinity(0, sizeof before, &before);
  EXPECT_THAT(allowed, ElementsAre(last));
}

}  // namespace
}  // namespace assay

#include "harness/conductor/process/standstill.hpp"

#include <chrono>

#include <gtest/gtest.h>

namespace assay {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t ms = 1'000'000;

// What a watch finds if a wait of at most 250 ms ends after these times.
std::optional<Standstill> after(std::int64_t monotonic_ns, std::int64_t boot_ns, std::int64_t waited_ns) {
  StandstillWatch::Moment now{.monotonic_ns = 5000 * ms, .boot_ns = 9000 * ms, .waited_ns = 100 * ms};
  StandstillWatch watch([&now] { return now; });
  watch.begin();
  now.monotonic_ns += monotonic_ns;
  now.boot_ns += boot_ns;
  now.waited_ns += waited_ns;
  return watch.end(milliseconds(250));
}

TEST(StandstillWatch, FindsAProcessThatWasStopped) {
  EXPECT_FALSE(after(250 * ms, 250 * ms, 0));
  EXPECT_FALSE(after(700 * ms, 700 * ms, 0)) << "less than half a second too long";
  const auto found = after(3250 * ms, 3250 * ms, 0);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->seconds, 3);
  EXPECT_EQ(found->begin_ns, 5000 * ms);
  EXPECT_EQ(found->end_ns, 8250 * ms);
}

TEST(StandstillWatch, FindsASystemThatWasSuspended) {
  const auto found = after(250 * ms, 60'250 * ms, 0);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->seconds, 60);
}

TEST(StandstillWatch, FindsNothingOnABusyMachine) { EXPECT_FALSE(after(3250 * ms, 3250 * ms, 2800 * ms)); }

TEST(StandstillWatch, ReadsClocksThatGoOn) {
  const StandstillWatch::Moment first = StandstillWatch::present(), second = StandstillWatch::present();
  EXPECT_GE(second.monotonic_ns, first.monotonic_ns);
  EXPECT_GE(second.boot_ns - second.monotonic_ns, 0);
}

}  // namespace
}  // namespace assay

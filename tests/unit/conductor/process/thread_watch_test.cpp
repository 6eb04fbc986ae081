#include "harness/conductor/process/thread_watch.hpp"

#include <unistd.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ThreadSeen on(std::initializer_list<unsigned> processors, double busy_seconds) {
  ThreadSeen seen;
  CPU_ZERO(&seen.allowed);
  for (const unsigned processor : processors) CPU_SET(processor, &seen.allowed);
  seen.cpu_ns = static_cast<std::int64_t>(1e9 * busy_seconds);
  return seen;
}

// What a look finds, for a worker on the processors 2 and 3.
std::vector<int> confined(const std::map<pid_t, ThreadSeen>& threads) {
  ThreadWatch watch({2, 3});
  watch.look(threads);
  return watch.confined_to();
}

TEST(ThreadWatch, FindsThreadsThatShareTooFewProcessors) {
  EXPECT_THAT(confined({{1, on({2}, 5)}, {2, on({2}, 5)}, {3, on({2, 3}, 0.1)}}), ElementsAre(2))
      << "the third thread does not compute";
  EXPECT_THAT(confined({{1, on({2}, 0.02)}, {2, on({2}, 0.01)}, {3, on({2, 3}, 0)}}), ElementsAre(2))
      << "they take turns, and wait most of the time";
  EXPECT_THAT(confined({{1, on({3}, 9)}}), ElementsAre(3)) << "no thread may use the other one";
}

TEST(ThreadWatch, AcceptsThreadsThatAreFreeOrHaveOneProcessorEach) {
  EXPECT_THAT(confined({{1, on({2, 3}, 9)}, {2, on({2, 3}, 9)}}), IsEmpty());
  EXPECT_THAT(confined({{1, on({2}, 9)}, {2, on({3}, 9)}}), IsEmpty());
  EXPECT_THAT(confined({{1, on({2}, 9)}, {2, on({3}, 0)}}), IsEmpty()) << "only one of them has work";
  EXPECT_THAT(confined({{1, on({2, 3}, 9)}}), IsEmpty());
  EXPECT_THAT(confined({}), IsEmpty());
}

TEST(ThreadWatch, FindsAProcessorOutsideAndKeepsIt) {
  ThreadWatch watch({2, 3});
  watch.look({{1, on({2, 3}, 0)}});
  EXPECT_FALSE(watch.outside());
  watch.look({{1, on({2, 3, 7}, 0)}});
  watch.look({{1, on({2, 3}, 0)}});
  EXPECT_EQ(watch.outside(), 7);
}

TEST(ThreadWatch, FindsNothingForAWorkerWithoutProcessorsOfItsOwn) {
  ThreadWatch watch({});
  watch.look({{1, on({2}, 5)}, {2, on({2}, 5)}});
  EXPECT_FALSE(watch.outside());
  EXPECT_THAT(watch.confined_to(), IsEmpty());
}

TEST(ThreadWatch, SeesTheThreadsOfAProcess) {
  const pid_t self = ::getpid();
  const auto threads = threads_of(std::vector<pid_t>{self});
  ASSERT_TRUE(threads.contains(self));
  EXPECT_GT(CPU_COUNT(&threads.at(self).allowed), 0);
  ThreadWatch watch({CPU_SETSIZE});
  watch.look_outside(std::vector<pid_t>{self});
  EXPECT_TRUE(watch.outside()) << "this process may run anywhere else";
}

}  // namespace
}  // namespace assay

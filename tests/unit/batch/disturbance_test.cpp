// The use of a worker's processors by others, with real processes.
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

#include "harness/batch/counters.hpp"
#include "harness/batch/supply.hpp"
#include "harness/core/clock.hpp"
#include "harness/protocol/clock_file.hpp"
#include "tests/unit/batch/cell_fixture.hpp"

namespace assay {
namespace {

constexpr double max_taken = 0.03;  // above it a fork is flagged

int a_processor() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) return cpu;
  return 0;
}

void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(processor), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

// Of processor time.
void burn(std::int64_t nanoseconds) {
  timespec time{};
  do ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  while (time.tv_sec * 1'000'000'000 + time.tv_nsec < nanoseconds);
}

// Of wall time.
void spin(std::int64_t nanoseconds) {
  for (const std::int64_t end = now_ns() + nanoseconds; now_ns() < end;) {
  }
}

void sleep_for(std::int64_t nanoseconds) {
  const timespec time{0, nanoseconds};
  ::nanosleep(&time, nullptr);
}

// A process that keeps a processor busy and is not a descendant of this one: its parent ends at once.
class Stranger {
 public:
  explicit Stranger(int processor) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    const pid_t parent = ::fork();
    if (parent == 0) {
      const pid_t stranger = ::fork();
      if (stranger == 0) {
        stay_on(processor);
        ::alarm(60);  // where the test dies before it can end it
        for (;;) spin(1'000'000);
      }
      ::_exit(::write(ends[1], &stranger, sizeof stranger) == sizeof stranger ? 0 : 1);
    }
    ::waitpid(parent, nullptr, 0);
    if (::read(ends[0], &process_, sizeof process_) != sizeof process_) std::abort();
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Stranger() { ::kill(process_, SIGKILL); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

 private:
  pid_t process_ = 0;
};

// The findings of a fork of five blocks.
template <typename Step>
std::optional<Disturbance> measured(const Step& step) {
  Cell cell;
  cell.request["loader"] = {{"kind", "resident"}, {"resident_batches", 1}};
  cell.request["clock"] = {{"kind", "steps"},
                           {"warm_up", {{"min_steps", 1}, {"min_seconds", 0}}},
                           {"block_seconds", 0.1},
                           {"blocks", 5}};
  cell.save_request();
  BatchSupply supply(cell.path());
  for (assay_block block = supply.next_block(); block.kind != ASSAY_DONE; block = supply.next_block()) {
    for (std::int64_t i = 0; i < block.steps; ++i) step();
    supply.end_block(0.5);
  }
  return read_clock_file(cell.path() / "results" / "clock.json").disturbance;
}

TEST(ChildrenCpuTime, CountsLiveChildrenAndThoseThatEnded) {
  const std::int64_t before = children_cpu_ns();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    burn(100'000'000);
    char byte;
    [[maybe_unused]] const ssize_t got = ::read(ends[0], &byte, 1);  // until the parent closes its end
    ::_exit(0);
  }
  ::close(ends[0]);
  std::int64_t alive = 0;
  for (int i = 0; i < 2000 && alive < 50'000'000; ++i) {
    sleep_for(10'000'000);
    alive = children_cpu_ns() - before;
  }
  EXPECT_GE(alive, 50'000'000);
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
  EXPECT_GE(children_cpu_ns() - before, 50'000'000);
}

TEST(Disturbance, SharesAreLessTheResolutionOfTheCounters) {
  const Disturbance none{.processors = 2, .window_ns = 100'000'000, .others_ns = 20'000'000};
  EXPECT_EQ(none.others_share(), 0);
  const Disturbance some{
      .processors = 2, .window_ns = 1'000'000'000, .others_ns = 220'000'000, .steal_ns = -5};
  EXPECT_DOUBLE_EQ(some.others_share(), 0.1);
  EXPECT_EQ(some.steal_share(), 0);
  EXPECT_EQ(Disturbance{}.others_share(), 0);
}

// The tests below put themselves on one processor: what others do on the rest of the machine is not theirs.
class OnOneProcessor : public testing::Test {
 protected:
  OnOneProcessor() { ::sched_getaffinity(0, sizeof before_, &before_), stay_on(processor_); }
  ~OnOneProcessor() override { ::sched_setaffinity(0, sizeof before_, &before_); }

  int processor_ = a_processor();

 private:
  cpu_set_t before_;
};

// Whether another process uses the processor now, while this process sleeps.
bool is_busy() {
  const auto found = measured([] { sleep_for(10'000'000); });
  return found && found->others_share() > max_taken / 3;
}

TEST_F(OnOneProcessor, AWorkerThatSleepsHalfItsTimeIsClean) {
  std::optional<Disturbance> found;
  for (int attempt = 0; attempt < 10; ++attempt) {
    found = measured([] {
      spin(5'000'000);
      sleep_for(5'000'000);
    });
    if (!found) GTEST_SKIP() << "this system does not show how busy its processors are";
    if (found->others_share() <= max_taken) break;
    if (is_busy()) GTEST_SKIP() << "another process uses the processor";
  }
  EXPECT_LE(found->others_share(), max_taken);
  EXPECT_LT(found->own_ns, found->window_ns * 3 / 4) << "it slept";
  EXPECT_GT(found->own_ns, found->window_ns / 4);
  EXPECT_EQ(found->processors, 1);
}

TEST_F(OnOneProcessor, ASpinnerNextToABusyProcessIsFound) {
  const Stranger stranger(processor_);
  const auto found = measured([] { spin(5'000'000); });
  if (!found) GTEST_SKIP() << "this system does not show how busy its processors are";
  EXPECT_GT(found->others_share(), 0.2);
}

TEST_F(OnOneProcessor, AChildOfTheWorkerIsNotAnotherProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    for (;;) spin(1'000'000);
  }
  std::optional<Disturbance> found;
  for (int attempt = 0; attempt < 5; ++attempt) {
    found = measured([] { sleep_for(10'000'000); });
    if (!found || found->others_share() <= max_taken) break;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  if (!found) GTEST_SKIP() << "this system does not show how busy its processors are";
  // Next to other busy processes it gets only a part of the processor.
  EXPECT_GT(found->own_ns, found->window_ns / 20) << "the child's time is the worker's";
  // Another process may come and go, as in one of the attempts.
  for (int attempt = 0; attempt < 20 && found->others_share() > max_taken; ++attempt)
    if (is_busy()) GTEST_SKIP() << "another process uses the processor";
  EXPECT_LE(found->others_share(), max_taken);
}

}  // namespace
}  // namespace assay

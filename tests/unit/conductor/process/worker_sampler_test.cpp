#include "harness/conductor/process/worker_sampler.hpp"

#include "harness/conductor/process/other_processes.hpp"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/core/io/atomic_file.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

constexpr std::size_t held_bytes = 64 << 20;
constexpr double burnt_seconds = 0.3;

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// A worker that forks. The child waits for a byte, takes memory and CPU time, answers, and waits for the next
// byte to end; the worker sleeps, waits for it and then sleeps on.
class ForkingWorker {
 public:
  ForkingWorker() {
    EXPECT_EQ(::pipe(go_), 0);
    EXPECT_EQ(::pipe(done_), 0);
    worker_ = ::fork();
    if (worker_ == 0) be_worker();
    wait();  // for the child to be there
  }
  ~ForkingWorker() {
    ::kill(worker_, SIGKILL);
    ::waitpid(worker_, nullptr, 0);
    for (const int end : {go_[0], go_[1], done_[0], done_[1]}) ::close(end);
  }
  ForkingWorker(const ForkingWorker&) = delete;
  ForkingWorker& operator=(const ForkingWorker&) = delete;

  // Lets the child go one stage on and returns when it has.
  void advance() {
    EXPECT_EQ(::write(go_[1], "x", 1), 1);
    wait();
  }
  pid_t pid() const { return worker_; }

 private:
  void wait() {
    char byte = 0;
    EXPECT_EQ(::read(done_[0], &byte, 1), 1);
  }
  void take() {
    char byte = 0;
    if (::read(go_[0], &byte, 1) != 1) ::_exit(1);
  }
  void say() {
    if (::write(done_[1], "x", 1) != 1) ::_exit(1);
  }
  [[noreturn]] void be_worker() {
    ::close(go_[1]);  // the child ends with the test, at any stage
    if (::fork() == 0) {
      say();
      take();
      volatile char* held = new char[held_bytes];
      for (std::size_t i = 0; i < held_bytes; i += 1024) held[i] = 1;
      while (cpu_seconds() < burnt_seconds) {
      }
      say();
      take();
      ::_exit(0);
    }
    ::wait(nullptr);
    say();
    for (;;) ::pause();
  }

  int go_[2], done_[2];
  pid_t worker_ = -1;
};

TEST(ResidentBytes, OfAProcessBeginAgainWhenTheirPeakIsForgotten) {
  EXPECT_EQ(resident_bytes(-1).peak, 0);
  const std::int64_t before = resident_bytes(::getpid()).peak;
  ASSERT_GT(before, 0);
  {
    const std::vector<char> block(held_bytes, 1);
    EXPECT_GE(resident_bytes(::getpid()).now, static_cast<std::int64_t>(held_bytes));
  }
  const std::int64_t with_block = resident_bytes(::getpid()).peak;
  EXPECT_GE(with_block, static_cast<std::int64_t>(held_bytes));
  forget_peak_of(::getpid());
  EXPECT_LT(resident_bytes(::getpid()).peak, with_block);
}

TEST(WorkerSampler, TakesTheClockOfTheWorkersProcessors) {
  const TemporaryFolder folder;
  for (const auto& [processor, kilohertz] : {std::pair{0, "1000000"}, {2, "2000000"}, {3, "3000000"}}) {
    const std::filesystem::path one = folder / fmt::format("cpu{}/cpufreq", processor);
    std::filesystem::create_directories(one);
    write_atomically(one / "scaling_cur_freq", kilohertz);
  }
  EXPECT_EQ(mean_frequency(std::vector{2, 3}, folder.path().string()), 2.5e9);
  EXPECT_EQ(mean_frequency(std::vector{2, 4}, folder.path().string()), 0) << "one of them is unknown";
  EXPECT_EQ(mean_frequency({}, folder.path().string()), 0);
}

TEST(WorkerSampler, counts_children_and_keeps_the_time_of_ended_ones) {
  ForkingWorker worker;
  WorkerSampler sampler;
  EXPECT_FALSE(sampler.sample(worker.pid())) << "one look gives no rate";
  const std::int64_t before = sampler.peak_rss();
  ASSERT_GT(before, 0);

  worker.advance();
  const auto busy = sampler.sample(worker.pid());
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->processes, 2);
  EXPECT_GE(busy->worker_rss, static_cast<std::int64_t>(held_bytes));
  EXPECT_EQ(sampler.peak_rss(), busy->worker_rss);
  EXPECT_GT(busy->worker_cpu, 0) << "only the child's: the worker sleeps";

  worker.advance();
  ::usleep(60'000);  // a shorter interval gives no separate rate
  const auto after = sampler.sample(worker.pid());
  ASSERT_TRUE(after);
  EXPECT_EQ(after->processes, 1);
  EXPECT_LT(after->worker_rss, before);
  EXPECT_EQ(sampler.peak_rss(), busy->worker_rss);
  // Its ticks moved to the worker that waited for it: none was lost and none came twice.
  const double interval = 1e-9 * static_cast<double>(after->time_ns - busy->time_ns);
  EXPECT_GE(after->worker_cpu, 0);
  EXPECT_LT(after->worker_cpu * interval, burnt_seconds / 2);
}

TEST(ProcessorTime, IsThatOfTheProcessWithoutItsChildren) {
  EXPECT_FALSE(processor_time_ns(-1));
  ForkingWorker worker;
  worker.advance();
  worker.advance();  // it has waited for the child
  ASSERT_TRUE(processor_time_ns(worker.pid()));
  EXPECT_LT(1e-9 * static_cast<double>(*processor_time_ns(worker.pid())), burnt_seconds / 2);
  const double end = cpu_seconds() + 0.1;
  while (cpu_seconds() < end) {
  }
  EXPECT_NEAR(1e-9 * static_cast<double>(*processor_time_ns(::getpid())), cpu_seconds(), 0.03);
}

TEST(ProcessorTime, OfATreeKeepsThatOfChildrenThatEnded) {
  EXPECT_FALSE(tree_processor_time_ns(-1));
  ForkingWorker worker;
  worker.advance();
  EXPECT_GE(1e-9 * static_cast<double>(*tree_processor_time_ns(worker.pid())), burnt_seconds);
  worker.advance();  // it has waited for the child
  EXPECT_NEAR(1e-9 * static_cast<double>(*tree_processor_time_ns(worker.pid())), burnt_seconds,
              burnt_seconds / 3);
}

TEST(OtherProcesses, AreAllButTheWorkerAndItsChildren) {
  ForkingWorker worker;
  const auto before = times_of_others(worker.pid());
  if (!before) GTEST_SKIP() << "a container that hides other processes";
  EXPECT_TRUE(before->contains(::getpid()));
  EXPECT_FALSE(before->contains(worker.pid()));
  const double end = cpu_seconds() + 0.1;
  while (cpu_seconds() < end) {
  }
  worker.advance();  // its child computes
  const auto after = times_of_others(worker.pid());
  ASSERT_TRUE(after);
  EXPECT_GE(1e-9 * static_cast<double>(used_by_others(*before, *after)), 0.1) << "this process";
  ProcessTimes own_before{{::getpid(), before->at(::getpid())}},
      own_after{{::getpid(), after->at(::getpid())}};
  EXPECT_LT(1e-9 * static_cast<double>(used_by_others(own_before, own_after)), 0.1 + burnt_seconds / 2);
}

TEST(OtherProcesses, UseWhatIsMoreThanBefore) {
  EXPECT_EQ(used_by_others({{1, 100}, {2, 50}, {3, 70}}, {{1, 180}, {2, 40}, {4, 7}}), 87)
      << "3 ended and 1 waited for it, 4 is new";
}

TEST(WorkerSampler, keeps_its_rate_if_only_a_few_ticks_passed) {
  ForkingWorker worker;
  WorkerSampler sampler;
  EXPECT_FALSE(sampler.sample(worker.pid()));
  worker.advance();
  const auto one = sampler.sample(worker.pid()), other = sampler.sample(worker.pid());
  EXPECT_GT(one->worker_cpu, 0);
  EXPECT_EQ(other->worker_cpu, one->worker_cpu);
}

TEST(WorkerSampler, IsEmptyForAProcessThatEnded) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(WorkerSampler().sample(child));
}

}  // namespace
}  // namespace assay

#include "harness/conductor/run/pace.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/run/crowding.hpp"
#include "harness/report/fork_time.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr Pace::Clock::time_point begin{};
const std::vector<PlannedFork> round_of_two{{0, 1}, {1, 1}};

TEST(Pace, BeginsNoRoundThatCannotEndInTime) {
  Pace pace(100, begin);
  EXPECT_EQ(pace.end(), begin + seconds(100));
  EXPECT_TRUE(pace.can_begin(round_of_two, begin + seconds(99))) << "nothing is known yet";
  EXPECT_FALSE(pace.can_begin(round_of_two, begin + seconds(100)));
  pace.took(0, 10);
  EXPECT_TRUE(pace.can_begin(round_of_two, begin + seconds(80))) << "cell 1 counts as cell 0";
  EXPECT_FALSE(pace.can_begin(round_of_two, begin + seconds(81)));
  pace.took(1, 60);
  EXPECT_TRUE(pace.can_begin(round_of_two, begin + seconds(30)));
  EXPECT_FALSE(pace.can_begin(round_of_two, begin + seconds(31)));
  pace.took(1, 20);
  EXPECT_TRUE(pace.can_begin(round_of_two, begin + seconds(70))) << "the last fork of a cell decides";
}

TEST(Pace, expects_no_start_where_processes_stay) {
  Fork fork{.status = Status::ok};
  fork.spent = TimeSpent{.start = 2, .compile = 30, .run = 3};
  EXPECT_EQ(seconds_of_next(fork, 36, true), 4);
  EXPECT_EQ(seconds_of_next(fork, 36, false), 36);
  fork.spent = TimeSpent{.run = 3};  // in the process of an earlier one
  EXPECT_EQ(seconds_of_next(fork, 4, true), 4);
  fork.status = Status::crashed;
  fork.spent = TimeSpent{.start = 2};
  EXPECT_EQ(seconds_of_next(fork, 4, true), 4) << "the next one starts a process, too";
}

TEST(Pace, HasNoLimitWithoutMaxTime) {
  Pace pace(0, begin);
  pace.took(0, 1e6);
  EXPECT_FALSE(pace.end());
  EXPECT_FALSE(pace.fair_share(2, begin));
  EXPECT_TRUE(pace.can_begin(round_of_two, begin + seconds(1'000'000)));
  EXPECT_EQ(pace.part_over(begin + seconds(1000), 3, 12), 0.25) << "of the forks";
}

TEST(Pace, SharesWhatIsLeftAmongTheForksOfARound) {
  const Pace pace(100, begin);
  EXPECT_EQ(pace.fair_share(4, begin + seconds(20)), 20);
  EXPECT_EQ(pace.fair_share(1, begin + seconds(20)), 80);
  EXPECT_EQ(pace.fair_share(1, begin + seconds(120)), 0);
  EXPECT_EQ(pace.part_over(begin + seconds(25), 0, 9), 0.25);
}

void disturb(Report& report, int rounds) {
  for (CellReport& cell : report.cells)
    for (Fork& fork : cell.forks) {
      if (fork.round >= rounds) continue;
      fork.flags = {quality_flag::disturbed};
      fork.disturbance = {.processors = 2, .window_ns = 1'000'000'000, .others_ns = 620'000'000};
    }
}

TEST(TooBusy, IsSaidAfterAThirdOfTheRunIfMostRoundsWereDisturbed) {
  Report report = test::sample_report(3);
  disturb(report, 3);
  EXPECT_EQ(too_busy(report, 6, 0.3), "");
  EXPECT_THAT(too_busy(report, 6, 0.34), HasSubstr("3 of 3 rounds were disturbed"));
  EXPECT_THAT(too_busy(report, 6, 0.34), HasSubstr("took 30 % of the processors"));
  report = test::sample_report(6);
  disturb(report, 3);
  EXPECT_EQ(too_busy(report, 6, 0.5), "") << "not most of them";
  disturb(report, 4);
  EXPECT_NE(too_busy(report, 6, 0.5), "");
  EXPECT_EQ(too_busy(report, 3, 0.5), "") << "two rounds in half of the time are four in all of it";
}

TEST(Learnt, OrdersTheCellsOfAGroupByAllRounds) {
  Report report = test::sample_report(2);
  disturb(report, 2);
  EXPECT_EQ(learnt(report, 1), "onednn graph, torch compile 4.00x");
  report.cells[1].forks.clear();
  EXPECT_EQ(learnt(report, 0), "");
}

Fork disturbed_fork(std::int64_t waited_ns, std::int64_t others_ns) {
  Fork fork = test::sample_cell("mxnet", "hybridize", 0.01, 1).forks[0];
  fork.flags = {quality_flag::disturbed};
  fork.disturbance = {.processors = 4, .window_ns = 1'000, .others_ns = others_ns, .waited_ns = waited_ns};
  return fork;
}

TEST(Crowding, LeavesOutAsManyThreadsAsProcessorsAreTaken) {
  Crowding crowding(2);
  EXPECT_EQ(crowding.threads_left_out(), 0);
  crowding.note(disturbed_fork(900, 1'700));
  EXPECT_EQ(crowding.threads_left_out(), 0) << "one fork does not show that the machine is busy";
  crowding.note(disturbed_fork(100, 2'100));
  EXPECT_EQ(crowding.threads_left_out(), 2);
  crowding.note(disturbed_fork(0, 2'100));
  EXPECT_EQ(crowding.threads_left_out(), 2) << "with fewer threads none waits, and the machine is as busy";
  Fork quiet = disturbed_fork(0, 0);
  quiet.flags.clear();
  crowding.note(quiet);
  EXPECT_EQ(crowding.threads_left_out(), 0);
}

TEST(Crowding, LeavesThreadsOutOnlyIfTheyWait) {
  Crowding crowding(2);
  for (int i = 0; i < 4; ++i) crowding.note(disturbed_fork(400, 1'700));
  EXPECT_EQ(crowding.threads_left_out(), 0);
}

TEST(Crowding, LeavesOneThreadOutAfterAForkThatWasGivenUp) {
  Crowding crowding(4);
  crowding.note_starved();
  EXPECT_EQ(crowding.threads_left_out(), 1) << "nothing is known of the others";
}

}  // namespace
}  // namespace assay

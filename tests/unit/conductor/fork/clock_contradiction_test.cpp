// The worker's clock file next to the conductor's measurements of the same run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/fork/quality.hpp"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t ms = 1'000'000;

// A warm-up of half a second and ten timed blocks on one processor, with `gap` between two blocks. The run takes 10 ms
// before the first block and after the last.
struct TimedRun {
  Fork fork;
  RunWindow window;
};
TimedRun run_of(std::int64_t block_ns, std::int64_t gap_ns, int blocks = 10) {
  TimedRun run{{}, {.begin_ns = 1'000'000'000, .processors = 1}};
  std::int64_t now = run.window.begin_ns + 10 * ms, used = 0;
  const auto add = [&](BlockKind kind, std::int64_t length, int epoch) {
    run.fork.blocks.push_back({.kind = kind,
                               .epoch = epoch,
                               .steps = 10,
                               .begin_ns = now,
                               .end_ns = now + length,
                               .cpu_ns = length});
    now += length + gap_ns;
    used += length;
  };
  add(BlockKind::warm_up, 500 * ms, 0);
  for (int i = 0; i < blocks; ++i) add(BlockKind::timed, block_ns, 0);
  run.window.end_ns = now - gap_ns + 10 * ms;
  run.window.cpu_ns = used + 10 * ms;
  return run;
}
std::string found_in(const TimedRun& run) { return contradiction_in_clock(run.fork, run.window); }

TEST(ClockContradiction, RefusesABlockWithMoreStepsThanNanoseconds) {
  TimedRun run = run_of(100 * ms, 0);
  run.fork.blocks[1].steps = 100 * ms;
  EXPECT_THAT(found_in(run), IsEmpty());
  run.fork.blocks[1].steps = std::int64_t{1} << 62;
  EXPECT_THAT(found_in(run), HasSubstr("steps in 100000000 ns"));
}

TEST(ClockContradiction, RefusesBlocksOutsideOfTheRun) {
  TimedRun run = run_of(100 * ms, 0);
  run.window.end_ns -= 12 * ms;
  EXPECT_THAT(found_in(run), HasSubstr("ends after the worker reported"));
  run = run_of(100 * ms, 0);
  run.window.begin_ns += 12 * ms;
  EXPECT_THAT(found_in(run), HasSubstr("begins before the conductor sent"));
}

TEST(ClockContradiction, RefusesTimeOutsideOfTheSteps) {
  for (const bool silent : {false, true}) {
    TimedRun run = run_of(100 * ms, 0);
    if (!silent) run.window.stepped_ns = {run.fork.blocks.front().begin_ns, run.fork.blocks.back().end_ns};
    run.window.begin_ns -= 1000 * ms;
    run.window.handled_bytes = 0;
    EXPECT_THAT(found_in(run), IsEmpty()) << "a second to stage and to read";
    run.window.begin_ns -= 400 * ms;
    EXPECT_THAT(found_in(run), AllOf(HasSubstr("the run took 2.92 s"), HasSubstr("take 1.5 s, and staging")));
    run.window.handled_bytes = 8'000'000;
    EXPECT_THAT(found_in(run), IsEmpty());
    run.window.handled_bytes = 0;
    run.window.idle_seconds = 0.4;
    EXPECT_THAT(found_in(run), IsEmpty()) << "it waited for a disk";
    run.window.handled_bytes.reset();
    run.window.idle_seconds = 0;
    EXPECT_THAT(found_in(run), IsEmpty());
  }
}

TEST(ClockContradiction, ExcusesTheTimeForWhichAQuotaStoppedTheWorker) {
  TimedRun run = run_of(100 * ms, 60 * ms);
  EXPECT_THAT(found_in(run), HasSubstr("cover"));
  run.window.quota_stopped_ns = 600 * ms;
  EXPECT_THAT(found_in(run), IsEmpty());
}

TEST(ClockContradiction, RefusesBlocksThatAreATenthAsLong) {
  EXPECT_THAT(found_in(run_of(10 * ms, 90 * ms)), HasSubstr("cover"));
  EXPECT_THAT(found_in(run_of(50 * ms, 50 * ms)), HasSubstr("cover"));
}

TEST(ClockContradiction, RefusesAClockThatIsSlowerThanTheConductors) {
  TimedRun run = run_of(100 * ms, 0);
  run.window.stepped_ns = {run.fork.blocks.front().begin_ns, run.fork.blocks.back().end_ns};
  EXPECT_THAT(found_in(run), IsEmpty());
  run.window.stepped_ns->second += 100 * ms;  // the digest of the state is made after the last progress
  EXPECT_THAT(found_in(run), IsEmpty());
  run.window.end_ns += 1000 * ms;
  run.window.stepped_ns->second += 400 * ms;
  EXPECT_THAT(found_in(run), HasSubstr("by the conductor's clock"));
  run.window.disturbance = Disturbance{.processors = 1, .window_ns = 2000 * ms, .others_ns = 400 * ms};
  EXPECT_THAT(found_in(run), IsEmpty());
}

TEST(ClockContradiction, RefusesResultsThatWereNotThere) {
  TimedRun run = run_of(100 * ms, 0);
  run.fork.readings = {{20'000, 60'000, 5'000}, {20'000, 61'000, 4'000}, {20'000, 62'000, 5'000}};
  EXPECT_THAT(found_in(run), HasSubstr("results were not there"));
  run.fork.readings[1].first_ns = 6'000;
  EXPECT_THAT(found_in(run), IsEmpty()) << "the others were slow for other reasons";
  for (ResultReading& reading : run.fork.readings) reading.first_ns = reading.again_ns + 20'000;
  EXPECT_THAT(found_in(run), IsEmpty()) << "a framework keeps what the first reading made";
}

TEST(ClockContradiction, JudgesEachReadingByItsOwnBlock) {
  TimedRun run = run_of(100 * ms, 0);
  run.fork.readings = {{1 * ms, 6 * ms, 1 * ms}, {112 * ms, 790 * ms, 0}, {171 * ms, 685 * ms, 0}};
  EXPECT_THAT(found_in(run), HasSubstr("results were not there")) << "the first block was short";
}

TEST(ClockContradiction, RefusesStepsThatOnlyTheLastReadingWaitedFor) {
  TimedRun run = run_of(100 * ms, 0);  // ten timed blocks
  run.fork.readings = {{20'000, 6'000, 5'000}, {20'000, 6'000, 4'000}, {20'000, 110 * ms, 5'000}};
  EXPECT_THAT(found_in(run), IsEmpty()) << "a tenth of the blocks, and 20 ms";
  run.fork.readings.back().first_ns = 190 * ms;
  EXPECT_THAT(found_in(run), HasSubstr("results were not there"));
  run.window.disturbance = Disturbance{.processors = 1, .window_ns = 1520 * ms, .others_ns = 400 * ms};
  EXPECT_THAT(found_in(run), IsEmpty()) << "others may have stopped it";
}

TEST(ClockContradiction, ExcusesLateReadingsByTheTimeThatWasTaken) {
  TimedRun run = run_of(20 * ms, 0, 3);
  const auto late_by = [&](std::int64_t first, std::int64_t second) {
    run.fork.readings = {{20 * ms, 400'000 + first, 400'000},
                         {20 * ms, 400'000 + second, 400'000},
                         {20 * ms, 400'000, 400'000},
                         {20 * ms, 400'000, 400'000}};
    return found_in(run);
  };
  EXPECT_THAT(late_by(16 * ms, 16 * ms), HasSubstr("results were not there"));
  const auto taken = [&](std::int64_t others, std::int64_t steal) {
    run.window.disturbance =
        Disturbance{.processors = 1, .window_ns = 2000 * ms, .others_ns = others, .steal_ns = steal};
  };
  taken(20 * ms, 0);  // 1 % of the window, but at the wrong time
  EXPECT_THAT(late_by(16 * ms, 16 * ms), IsEmpty());
  taken(0, 20 * ms);
  EXPECT_THAT(late_by(16 * ms, 16 * ms), IsEmpty());
  EXPECT_THAT(late_by(26 * ms, 26 * ms), HasSubstr("results were not there")) << "more than was taken";
  taken(-20 * ms, 0);  // the kernel counts in ticks
  EXPECT_THAT(late_by(12 * ms, 13 * ms), IsEmpty());
}

TEST(ClockContradiction, ExcusesTimeThatTheHypervisorTook) {
  TimedRun run = run_of(100 * ms, 60 * ms);
  EXPECT_THAT(found_in(run), HasSubstr("may have worked between them"));
  run.window.disturbance = Disturbance{.processors = 1, .window_ns = 2000 * ms, .steal_ns = 400 * ms};
  EXPECT_THAT(found_in(run), IsEmpty());
}

TEST(ClockContradiction, RefusesResultsThatAreComputedWhenTheyAreRead) {
  TimedRun run = run_of(100 * ms, 0);
  run.fork.readings.assign(3, {1'000'000, 1'000'000, 1'000'000});
  EXPECT_THAT(found_in(run), HasSubstr("computed when they are read"));
  run.window.result_bytes = 200'000;  // a copy of as many may take 1 ms
  EXPECT_THAT(found_in(run), IsEmpty());
  run.window.result_bytes = 0;
  run.fork.readings.assign(3, {1'000'000, 300'000, 300'000});
  EXPECT_THAT(found_in(run), IsEmpty()) << "a framework's call";
}

Disturbance disturbance_of(std::int64_t others_ns) {
  return {.processors = 1, .window_ns = 1520 * ms, .others_ns = others_ns};
}

TEST(ClockContradiction, IsExcusedByTheConductorsMeasurement) {
  TimedRun run = run_of(10 * ms, 90 * ms);
  run.window.disturbance = disturbance_of(1300 * ms);
  EXPECT_THAT(found_in(run), IsEmpty()) << "it waited for a processor";
  EXPECT_TRUE(waited_for_others(run.fork, run.window)) << "and does not count";
  run.window.disturbance = disturbance_of(50 * ms);
  EXPECT_THAT(found_in(run), HasSubstr("cover")) << "2.6 % without the resolution of the counters";
  EXPECT_FALSE(waited_for_others(run.fork, run.window));
}

TEST(ClockContradiction, IsNotExcusedByTheWorkersWord) {
  TimedRun run = run_of(10 * ms, 90 * ms);
  run.fork.disturbance = disturbance_of(1300 * ms);
  EXPECT_THAT(found_in(run), HasSubstr("cover")) << "nothing was measured";
  run.window.disturbance = disturbance_of(0);
  EXPECT_THAT(found_in(run), HasSubstr("cover"));
  EXPECT_FALSE(waited_for_others(run.fork, run.window));
}

TEST(ClockContradiction, OthersDoNotFlagAForkThatIsCovered) {
  TimedRun run = run_of(100 * ms, 2 * ms);
  run.window.disturbance = disturbance_of(1300 * ms);
  EXPECT_FALSE(waited_for_others(run.fork, run.window)) << "the worker's own record decides";
}

TEST(ClockContradiction, ExcusesAWaitBeforeTheFirstTimedBlock) {
  TimedRun run = run_of(ms, 0, 1);
  run.fork.blocks[0].end_ns -= 190 * ms;
  run.fork.blocks[0].cpu_ns -= 190 * ms;
  *run.window.cpu_ns -= 190 * ms;
  run.fork.disturbance =
      Disturbance{.processors = 1, .window_ns = ms};  // in the timed block there was nobody
  EXPECT_THAT(found_in(run), HasSubstr("cover 1 ms of the 191 ms"));
  run.window.disturbance = disturbance_of(180 * ms);
  EXPECT_THAT(found_in(run), IsEmpty());
  EXPECT_TRUE(waited_for_others(run.fork, run.window));
}

TEST(ClockContradiction, RefusesALongPauseBeforeTheFirstTimedBlock) {
  TimedRun run = run_of(10 * ms, 0);
  run.fork.blocks[0].end_ns -= 300 * ms;
  EXPECT_THAT(found_in(run), HasSubstr("cover 100 ms of the 400 ms"));
}

TEST(ClockContradiction, AcceptsTheWorkBetweenHonestBlocks) {
  EXPECT_THAT(found_in(run_of(100 * ms, 2 * ms)), IsEmpty());
  EXPECT_THAT(found_in(run_of(ms, 3 * ms, 1000)), IsEmpty()) << "a Python worker on very short blocks";
  TimedRun run = run_of(ms, 0);
  run.fork.blocks.back().begin_ns += 100 * ms;  // its container's quota was used up
  run.fork.blocks.back().end_ns += 100 * ms;
  run.window.end_ns += 100 * ms;
  EXPECT_THAT(found_in(run), IsEmpty());
}

// Two epochs of a second, each with an evaluation of 400 ms.
TimedRun run_of_epochs() {
  TimedRun run = run_of(1000 * ms, 401 * ms, 2);
  run.fork.blocks.erase(run.fork.blocks.begin());
  for (int i = 0; i < 2; ++i) {
    run.fork.blocks[static_cast<std::size_t>(i)].epoch = i + 1;
    run.fork.evaluations.push_back({i + 1, DataSplit::test, 100, 0.5, 0.5, 0.4});
  }
  run.window.end_ns += 401 * ms;
  run.window.cpu_ns = 2900 * ms;
  return run;
}

TEST(ClockContradiction, CountsEvaluationsBetweenEpochs) {
  EXPECT_THAT(found_in(run_of_epochs()), IsEmpty());
  TimedRun run = run_of_epochs();
  run.fork.evaluations.clear();
  run.window.cpu_ns.reset();
  EXPECT_THAT(found_in(run), IsEmpty()) << "400 ms are within a fifth of the span";
  run.fork.blocks[1].begin_ns += 500 * ms;
  EXPECT_THAT(found_in(run), HasSubstr("cover"));
}

TEST(ClockContradiction, RefusesEvaluationsThatDoNotFit) {
  TimedRun run = run_of_epochs();
  run.fork.evaluations[0].seconds = 0.5;
  EXPECT_THAT(found_in(run), AllOf(HasSubstr("after epoch 1"), HasSubstr("the next block was 401 ms later")));
  run = run_of_epochs();
  run.fork.evaluations[1].seconds = 0.5;
  EXPECT_THAT(found_in(run), HasSubstr("the end of the run was"));
}

TEST(ClockContradiction, RefusesMoreProcessorTimeThanThereWas) {
  TimedRun run = run_of(100 * ms, 0);
  for (Block& block : run.fork.blocks) block.cpu_ns *= 2;
  EXPECT_THAT(found_in(run), HasSubstr("on 1 processor"));
  run.window.processors = 2;
  EXPECT_THAT(found_in(run), IsEmpty());
}

TEST(ClockContradiction, RefusesLessProcessorTimeThanTheProcessUsed) {
  TimedRun run = run_of(100 * ms, 0);
  for (Block& block : run.fork.blocks) block.cpu_ns /= 2;
  EXPECT_THAT(found_in(run), HasSubstr("cannot have used the rest"));
  run.window.cpu_ns.reset();
  EXPECT_THAT(found_in(run), IsEmpty());
  run = run_of(100 * ms, 0);
  for (Block& block : run.fork.blocks) block.cpu_ns = 0;
  run.window.cpu_ns = 60 * ms;  // a worker that sleeps
  EXPECT_THAT(found_in(run), IsEmpty());
}

TEST(CompileTime, WarnsIfTheWorkerReportsLessThanHalf) {
  const auto warnings = [](double worker, double conductor) {
    Fork fork;
    warn_of_compile_time(fork, worker, conductor);
    return fork.warnings.size();
  };
  EXPECT_EQ(warnings(0.9, 2.0), 1U);
  EXPECT_EQ(warnings(1.1, 2.0), 0U);
  EXPECT_EQ(warnings(0.003, 0.9), 0U) << "the parameters are read before the worker's clock starts";
}

TEST(ClockContradiction, ExcusesAStandstillBetweenBlocks) {
  TimedRun run = run_of(100 * ms, 0);
  for (std::size_t i = 6; i < run.fork.blocks.size(); ++i) {
    run.fork.blocks[i].begin_ns += 3000 * ms;
    run.fork.blocks[i].end_ns += 3000 * ms;
  }
  run.window.end_ns += 3000 * ms;
  EXPECT_THAT(found_in(run), HasSubstr("cover"));
  run.window.standstills = {{run.fork.blocks[5].end_ns, run.fork.blocks[6].begin_ns, 3}};
  EXPECT_THAT(found_in(run), IsEmpty());
}

TEST(Standstills, FlagAForkIfTheyFallIntoItsTimedBlocks) {
  TimedRun run = run_of(100 * ms, 0);
  const std::int64_t begin = run.fork.blocks.at(1).begin_ns;
  run.window.standstills = {{begin - 400 * ms, begin - ms, 0.6}};
  note_standstills(run.fork, run.window);
  EXPECT_THAT(run.fork.flags, IsEmpty()) << "in the warm-up";
  run.window.standstills.push_back({begin + ms, begin + 90 * ms, 2.5});
  note_standstills(run.fork, run.window);
  EXPECT_EQ(run.fork.flags, std::vector<std::string>{"frozen"});
  EXPECT_THAT(run.fork.warnings.at(0), HasSubstr("it stood still for 2.5 s"));
}

}  // namespace
}  // namespace assay

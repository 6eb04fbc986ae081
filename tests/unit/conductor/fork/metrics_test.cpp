#include "harness/report/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/fork/quality.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/metric_table.hpp"

namespace assay {
namespace {

Block block(BlockKind kind, int epoch, std::int64_t begin_ms, std::int64_t milliseconds,
            std::int64_t steps = 10) {
  Block made;
  made.kind = kind;
  made.epoch = epoch;
  made.steps = steps;
  made.begin_ns = begin_ms * 1'000'000;
  made.end_ns = (begin_ms + milliseconds) * 1'000'000;
  made.cpu_ns = milliseconds * 1'500'000;
  made.loss = 0.5;
  return made;
}

Fork steps_fork(int round, std::int64_t milliseconds) {
  Fork fork;
  fork.round = round;
  fork.seed = static_cast<std::uint64_t>(round) + 1;
  fork.status = Status::ok;
  fork.blocks = {block(BlockKind::warm_up, 0, 0, 500), block(BlockKind::timed, 0, 600, milliseconds),
                 block(BlockKind::timed, 0, 1600, milliseconds),
                 block(BlockKind::timed, 0, 2600, 2 * milliseconds)};
  return fork;
}

CellReport cell(std::vector<Fork> forks) {
  CellReport made;
  made.axes.workload = "mlp";
  made.axes.batch = 32;
  made.axes.threads = 2;
  made.id = cell_id(made.axes);
  made.status = Status::ok;
  made.equivalence.reason = "not asked for";
  made.forks = std::move(forks);
  made.flags = quality_flags(made.forks);
  made.metrics = metrics_of(made);
  return made;
}

TEST(Metrics, step_time_is_the_median_of_the_forks_medians) {
  const CellReport made = cell({steps_fork(0, 100), steps_fork(1, 300), steps_fork(2, 120)});
  EXPECT_DOUBLE_EQ(*made.metrics.at("step_time").value, 0.012);
  EXPECT_DOUBLE_EQ(*made.metrics.at("samples_per_second").value, 32 / 0.012);
  EXPECT_EQ(made.metrics.at("step_time").n, 3);
  EXPECT_DOUBLE_EQ(*made.metrics.at("cpu_utilisation").value, 0.75);
  EXPECT_DOUBLE_EQ(*made.metrics.at("step_cpu_time").value, 1.5 * 0.012);
}

TEST(Metrics, bounds_need_six_forks) {
  std::vector<Fork> forks;
  for (int round = 0; round < 5; ++round) forks.push_back(steps_fork(round, 100 + round));
  EXPECT_FALSE(cell(forks).metrics.at("step_time").lower);
  forks.push_back(steps_fork(5, 105));
  const Metric metric = cell(forks).metrics.at("step_time");
  EXPECT_DOUBLE_EQ(*metric.lower, 0.0100);
  EXPECT_DOUBLE_EQ(*metric.upper, 0.0105);
  EXPECT_DOUBLE_EQ(*metric.confidence, 0.96875);
}

const std::vector<std::string> was_disturbed{quality_flag::disturbed};

TEST(Metrics, LeaveOutDisturbedRoundsOfTimesAlone) {
  std::vector<Fork> forks = {steps_fork(0, 100), steps_fork(1, 900), steps_fork(2, 100)};
  for (Fork& fork : forks) fork.host_peak_rss = 1000 + fork.round;
  forks[1].flags = was_disturbed;
  const CellReport made = cell(forks);
  EXPECT_TRUE(made.flags.empty());
  EXPECT_TRUE(made.metrics.at("step_time").n == 2);
  EXPECT_DOUBLE_EQ(*made.metrics.at("step_time").value, 0.010);
  EXPECT_EQ(made.metrics.at("host_peak_rss").n, 3);
  EXPECT_DOUBLE_EQ(*made.metrics.at("host_peak_rss").value, 1001);
}

TEST(Metrics, CountEveryForkWhereNoRoundWasUndisturbed) {
  std::vector<Fork> forks = {steps_fork(0, 100), steps_fork(1, 900), steps_fork(2, 800)};
  for (Fork& fork : forks) fork.flags = was_disturbed;
  const CellReport made = cell(forks);
  EXPECT_THAT(made.flags, ::testing::ElementsAre(quality_flag::disturbed));
  EXPECT_DOUBLE_EQ(*made.metrics.at("step_time").value, 0.080);
  EXPECT_EQ(made.metrics.at("step_time").n, 3);
  EXPECT_FALSE(is_clean(made));
}

TEST(Metrics, FlagACellForWhatMoreThanHalfOfItsForksHave) {
  std::vector<Fork> forks = {steps_fork(0, 100), steps_fork(1, 900), steps_fork(2, 800)};
  forks[1].flags = {quality_flag::throttled};
  EXPECT_TRUE(cell(forks).flags.empty());
  EXPECT_EQ(cell(forks).metrics.at("step_time").n, 3) << "no fork is dropped for it";
  forks[2].flags = {quality_flag::throttled};
  EXPECT_THAT(cell(forks).flags, ::testing::ElementsAre(quality_flag::throttled));
}

TEST(Metrics, LeaveOutForksThatAQuotaStopped) {
  CellReport slow = cell({steps_fork(0, 900), steps_fork(1, 200)});
  slow.forks[0].flags = {quality_flag::quota};
  EXPECT_FALSE(counts(slow.forks[0]));
  EXPECT_TRUE(counts(slow.forks[1]));
  EXPECT_FALSE(is_disturbed(slow.forks[0])) << "no other process was there";
  EXPECT_TRUE(quality_flags(slow.forks).empty());
  slow.forks[1].flags = {quality_flag::quota};
  EXPECT_THAT(quality_flags(slow.forks), ::testing::ElementsAre(quality_flag::quota));
}

TEST(Metrics, a_fork_that_crashed_is_neither_clean_nor_counted) {
  std::vector<Fork> forks = {steps_fork(0, 100), steps_fork(1, 900), steps_fork(2, 800)};
  forks[1].flags = was_disturbed;
  forks[2].status = Status::crashed;
  EXPECT_EQ(cell(forks).metrics.at("step_time").n, 1);
}

TEST(Metrics, StepAndRateAgreeForAnEvenNumberOfForks) {
  const CellReport made = cell({steps_fork(0, 100), steps_fork(1, 900)});
  EXPECT_DOUBLE_EQ(*made.metrics.at("step_time").value, 0.050);
  EXPECT_DOUBLE_EQ(*made.metrics.at("samples_per_second").value, 32 / 0.050);
  const CellReport six = cell({steps_fork(0, 100), steps_fork(1, 110), steps_fork(2, 120), steps_fork(3, 130),
                               steps_fork(4, 140), steps_fork(5, 150)});
  const Metric &step = six.metrics.at("step_time"), &rate = six.metrics.at("samples_per_second");
  EXPECT_DOUBLE_EQ(*rate.value * *step.value, 32);
  EXPECT_DOUBLE_EQ(*rate.lower * *step.upper, 32);
  EXPECT_DOUBLE_EQ(*rate.upper * *step.lower, 32);
  EXPECT_EQ(rate.confidence, step.confidence);
}

TEST(Metrics, epochs_are_reported_first_apart_from_the_rest) {
  Fork fork;
  fork.status = Status::ok;
  fork.compile_seconds = 2;
  fork.blocks = {block(BlockKind::timed, 1, 0, 3000), block(BlockKind::timed, 2, 4000, 1000),
                 block(BlockKind::timed, 3, 6000, 2000)};
  fork.evaluations = {{1, DataSplit::test, 100, 0.9, 0.5, 0.1}, {3, DataSplit::test, 100, 0.4, 0.8, 0.1}};
  const Metrics metrics = cell({fork}).metrics;
  EXPECT_DOUBLE_EQ(*metrics.at("first_epoch_time").value, 5);
  EXPECT_DOUBLE_EQ(*metrics.at("epoch_time").value, 1.5);
  EXPECT_DOUBLE_EQ(*metrics.at("training_time").value, 8);
  EXPECT_DOUBLE_EQ(*metrics.at("test_accuracy").value, 0.8);
  EXPECT_DOUBLE_EQ(*metrics.at("test_loss").value, 0.4);
  EXPECT_DOUBLE_EQ(*metrics.at("first_epoch_steps_time").value, 3) << "without compilation";
  EXPECT_DOUBLE_EQ(*metrics.at("training_cpu_time").value, 1.5 * 6);
  fork.blocks.resize(1);
  EXPECT_FALSE(cell({fork}).metrics.at("epoch_time").value);
  EXPECT_FALSE(cell({steps_fork(0, 100)}).metrics.at("training_cpu_time").value);
}

TEST(Metrics, LoaderWaitIsNullWhereNothingMeasuresIt) {
  CellReport made = cell({steps_fork(0, 100)});
  made.axes.loader = LoaderKind::harness;
  EXPECT_EQ(metrics_of(made).at("loader_wait").value, 0);
  made.axes.loader = LoaderKind::native;
  EXPECT_FALSE(metrics_of(made).at("loader_wait").value);
  EXPECT_THAT(metrics_of(made).at("loader_wait").reason, ::testing::HasSubstr("framework's own loader"));
}

TEST(Metrics, ACompileTimeNeedsAForkThatStartedAProcess) {
  Fork fork = steps_fork(0, 100);
  fork.resident = true;
  const Metric metric = cell({fork}).metrics.at("compile_time");
  EXPECT_FALSE(metric.value);
  EXPECT_EQ(metric.n, 0);
  EXPECT_EQ(cell({fork}).metrics.at("step_time").n, 1);
}

TEST(Metrics, AddedMemoryIsThePeakLessTheStart) {
  Fork fork = steps_fork(0, 100);
  fork.host_peak_rss = 700;
  EXPECT_FALSE(cell({fork}).metrics.at("host_added_memory").value);
  fork.host_start_rss = 500;
  EXPECT_EQ(cell({fork}).metrics.at("host_added_memory").value, 200);
}

TEST(Metrics, RepeatsOfOneSeedGiveAnAccuracyNoInterval) {
  const auto accuracy_of = [](bool seeds_differ, bool values_differ) {
    std::vector<Fork> forks;
    for (int round = 0; round < 6; ++round) {
      forks.push_back(steps_fork(round, 100));
      forks.back().seed = seeds_differ ? static_cast<std::uint64_t>(round) : 7;
      const double accuracy = values_differ ? 0.5 + 0.01 * round : 0.5;
      forks.back().evaluations = {{1, DataSplit::test, 100, 0.9, accuracy, 0.1}};
    }
    return cell(forks).metrics.at("test_accuracy");
  };
  EXPECT_FALSE(accuracy_of(false, false).lower);
  EXPECT_EQ(accuracy_of(false, false).n, 6);
  EXPECT_TRUE(accuracy_of(false, true).lower) << "the machine makes each repeat another one";
  EXPECT_TRUE(accuracy_of(true, false).lower);
}

TEST(Metrics, a_percentile_needs_enough_calls) {
  const auto metrics_of_calls = [](std::int64_t calls) {
    Fork fork = steps_fork(0, 100);
    for (std::int64_t i = 0; i < calls; ++i) fork.latencies_ns.push_back((i + 1) * 1000);
    CellReport made = cell({fork});
    made.axes.task = Task::infer;
    return metrics_of(made);
  };
  const Metrics many = metrics_of_calls(10'000);
  EXPECT_NEAR(*many.at("latency_p50").value, 5000e-6, 1e-6);
  EXPECT_NEAR(*many.at("latency_p90").value, 9000e-6, 1e-6);
  EXPECT_NEAR(*many.at("latency_p99").value, 9900e-6, 1e-6);
  EXPECT_NEAR(*many.at("latency_p99.9").value, 9990e-6, 1e-6);
  const Metrics fewer = metrics_of_calls(6635);
  EXPECT_TRUE(fewer.at("latency_p99").value);
  for (const char* name : {"latency_p99.9", "latency_p99.9_bound", "latency_p99.9_worst"}) {
    EXPECT_FALSE(fewer.at(name).value);
    EXPECT_THAT(fewer.at(name).reason,
                ::testing::HasSubstr("6635 calls were timed, but this percentile needs 6636"));
  }
  EXPECT_TRUE(metrics_of_calls(6636).at("latency_p99.9").value);
  EXPECT_FALSE(metrics_of_calls(661).at("latency_p99").value);
  EXPECT_FALSE(metrics_of_calls(63).at("latency_p90").value);
  EXPECT_TRUE(metrics_of_calls(2).at("latency_p50").value);
}

TEST(Metrics, APercentileHasABoundWithinAForkAndItsWorstFork) {
  std::vector<Fork> forks;
  for (int round = 0; round < 9; ++round) {
    forks.push_back(steps_fork(round, 100));
    const std::int64_t slow = round == 4 ? 3 : 1;
    for (std::int64_t i = 1; i <= 1000; ++i) forks.back().latencies_ns.push_back(slow * i * 1000);
  }
  CellReport made = cell(forks);
  made.axes.task = Task::infer;
  const Metrics metrics = metrics_of(made);
  EXPECT_NEAR(*metrics.at("latency_p99").value, 990e-6, 1e-6);
  EXPECT_NEAR(*metrics.at("latency_p99").upper, 990e-6, 1e-6) << "the median hides the slow fork";
  EXPECT_NEAR(*metrics.at("latency_p99_worst").value, 2970e-6, 1e-6);
  EXPECT_EQ(metrics.at("latency_p99_worst").n, 9);
  EXPECT_FALSE(metrics.at("latency_p99_worst").lower);
  // P(Binomial(1000, 0.01) <= 3) = 0.0100, <= 2: 0.0027.
  EXPECT_NEAR(*metrics.at("latency_p99_bound").value, 998e-6, 1e-9);
}

TEST(Metrics, TokensArePricedOnlyInTaskDecode) {
  Fork fork = steps_fork(0, 100);
  fork.prefills_ns = {4'000'000, 6'000'000, 9'000'000};
  for (std::int64_t i = 0; i < 1000; ++i) fork.latencies_ns.push_back((i + 1) * 1000);
  fork.memory["caches"] = 4096;
  CellReport made = cell({fork});
  made.axes.batch = 12;
  made.axes.task = Task::decode;
  const Metrics metrics = metrics_of(made);
  EXPECT_DOUBLE_EQ(*metrics.at("prefill_time").value, 6e-3);
  EXPECT_NEAR(*metrics.at("token_time_p50").value, 500e-6, 1e-6);
  EXPECT_NEAR(*metrics.at("token_time_p99").value, 990e-6, 1e-6);
  EXPECT_NEAR(*metrics.at("tokens_per_second").value, 12 / 500.5e-6, 1e-3);
  EXPECT_EQ(*metrics.at("cache_bytes").value, 4096);
  EXPECT_FALSE(metrics.at("latency_p50").value);

  made.axes.task = Task::infer;
  made.forks.front().prefills_ns.clear();
  const Metrics others = metrics_of(made);
  for (const char* name :
       {"prefill_time", "token_time_p50", "token_time_p99", "tokens_per_second", "cache_bytes"})
    EXPECT_FALSE(others.at(name).value) << name;
  EXPECT_TRUE(others.at("latency_p50").value);
}

TEST(Metrics, percentiles_have_intervals_over_forks) {
  std::vector<Fork> forks;
  for (int round = 0; round < 6; ++round) {
    forks.push_back(steps_fork(round, 100));
    for (int i = 0; i < 7000; ++i) forks.back().latencies_ns.push_back((100 + round) * 1000);
  }
  const Metric p999 = cell(forks).metrics.at("latency_p99.9");
  EXPECT_DOUBLE_EQ(*p999.lower, 100e-6);
  EXPECT_DOUBLE_EQ(*p999.upper, 105e-6);
  EXPECT_EQ(p999.n, 6);
}

TEST(Metrics, has_accuracy_after_the_first_and_the_last_epoch) {
  Fork fork;
  fork.status = Status::ok;
  fork.blocks = {block(BlockKind::timed, 1, 0, 3000), block(BlockKind::timed, 2, 4000, 1000)};
  fork.evaluations = {{1, DataSplit::validation, 100, 0.9, 0.5, 0.1},
                      {2, DataSplit::validation, 100, 0.4, 0.8, 0.1}};
  EXPECT_DOUBLE_EQ(*cell({fork}).metrics.at("first_epoch_accuracy").value, 0.5);
  EXPECT_DOUBLE_EQ(*cell({fork}).metrics.at("validation_accuracy").value, 0.8);
  EXPECT_FALSE(cell({fork}).metrics.at("first_epoch_running_accuracy").value);
  fork.blocks[1].accuracy = 0.7;
  EXPECT_FALSE(cell({fork}).metrics.at("first_epoch_running_accuracy").value) << "that of another epoch";
  fork.blocks[0].accuracy = 0.4;
  EXPECT_DOUBLE_EQ(*cell({fork}).metrics.at("first_epoch_running_accuracy").value, 0.4);
}

TEST(Metrics, a_metric_without_a_value_has_a_reason) {
  CellReport made = cell({steps_fork(0, 100)});
  for (const auto& [name, metric] : made.metrics)
    EXPECT_NE(metric.value.has_value(), !metric.reason.empty()) << name;
  Report report;
  report.cells = {made};
  EXPECT_THAT(invariant_violations(report), ::testing::IsEmpty());
}

TEST(Metrics, KernelTimeIsTheSumOfTheMeansOfTheKernels) {
  Fork fork = steps_fork(0, 100);
  EXPECT_FALSE(cell({fork}).metrics.at("kernel_time").value);
  fork.operators = {{.node = "fc", .op = "linear", .seconds = 0.5, .calls = 100},
                    {.node = "fc", .op = "reorder", .seconds = 0.3, .calls = 200},
                    {.node = "never", .op = "relu", .seconds = 0.0, .calls = 0}};
  EXPECT_DOUBLE_EQ(*cell({fork}).metrics.at("kernel_time").value, 0.0065);
}

TEST(Metrics, EnqueueTimeNeedsAWorkerThatReportsIt) {
  Fork fork = steps_fork(0, 100);
  EXPECT_THAT(cell({fork}).metrics.at("enqueue_time").reason, ::testing::HasSubstr("does not report"));
  for (Block& each : fork.blocks) each.enqueue_ns = 20'000'000;
  EXPECT_DOUBLE_EQ(*cell({fork}).metrics.at("enqueue_time").value, 0.002);

  EXPECT_FALSE(cell({fork}).metrics.at("page_faults").value) << "as in reports of earlier releases";
  for (Block& each : fork.blocks) each.minor_faults = 0;
  EXPECT_EQ(cell({fork}).metrics.at("page_faults").value, 0);
  for (Block& each : fork.blocks) each.minor_faults = 25;
  EXPECT_DOUBLE_EQ(*cell({fork}).metrics.at("page_faults").value, 2.5);
}

TEST(Metrics, FirstAnswerIsStartAndCompilationOfAForkOfSteps) {
  Fork fork = steps_fork(0, 100);
  fork.compile_seconds = 0.5;
  EXPECT_FALSE(cell({fork}).metrics.at("first_answer_time").value);
  fork.spent.emplace().start = 2;
  EXPECT_DOUBLE_EQ(*cell({fork}).metrics.at("first_answer_time").value, 2.5);
  for (Block& each : fork.blocks) each.epoch = 1;
  EXPECT_THAT(cell({fork}).metrics.at("first_answer_time").reason, ::testing::HasSubstr("--steps"));
}

TEST(Metrics, TimeOutsideBlocksIsTheRestOfTheRun) {
  Fork fork = steps_fork(0, 100);  // 500 ms of warm-up, 100, 100 and 200 ms
  EXPECT_FALSE(cell({fork}).metrics.at("time_outside_blocks").value);
  fork.spent.emplace().run = 3;
  EXPECT_DOUBLE_EQ(*cell({fork}).metrics.at("time_outside_blocks").value, 2.1);
  fork.evaluations = {{1, DataSplit::test, 100, 0.9, 0.5, 0.6}};
  EXPECT_DOUBLE_EQ(*cell({fork}).metrics.at("time_outside_blocks").value, 1.5);
}

TEST(Metrics, CountFinalStatesOfForksOfOneSeed) {
  const auto states = [](std::vector<std::pair<std::uint64_t, std::string>> ends) {
    std::vector<Fork> forks;
    for (const auto& [seed, digest] : ends) {
      forks.push_back(steps_fork(static_cast<int>(forks.size()), 100));
      forks.back().seed = seed;
      forks.back().parameters_digest = digest;
    }
    return cell(forks).metrics.at("distinct_final_states");
  };
  const Metric alike = states({{7, "ab"}, {7, "ab"}, {7, "ab"}});
  EXPECT_EQ(alike.value, 1);
  EXPECT_EQ(alike.n, 3);
  EXPECT_EQ(states({{7, "ab"}, {7, "cd"}, {7, "ab"}}).value, 2);
  EXPECT_THAT(states({{7, "ab"}, {8, "ab"}}).reason, ::testing::HasSubstr("--seed-per-round"));
  EXPECT_THAT(states({{7, "ab"}}).reason, ::testing::HasSubstr("a second fork"));
  EXPECT_THAT(states({{7, "ab"}, {7, ""}}).reason, ::testing::HasSubstr("no digest"));
}

TEST(Metrics, every_metric_of_the_table_but_the_plans_is_computed) {
  std::vector<std::string> computed, in_table;
  for (const auto& [name, metric] : cell({steps_fork(0, 100)}).metrics) computed.push_back(name);
  for (const MetricRow& row : metric_table())
    if (row.section != Section::memory_plans) in_table.emplace_back(row.name);
  EXPECT_THAT(computed, ::testing::UnorderedElementsAreArray(in_table));
}

TEST(Metrics, a_cell_that_is_not_ok_has_no_metrics) {
  CellReport made = cell({steps_fork(0, 100)});
  made.status = Status::wrong_result;
  for (const auto& [name, metric] : metrics_of(made)) {
    EXPECT_FALSE(metric.value) << name;
    EXPECT_THAT(metric.reason, ::testing::HasSubstr("wrong_result"));
  }
}

std::vector<std::string> flags_of(Fork fork) {
  add_quality_flags(fork, Cell{});
  return fork.flags;
}

std::vector<std::string> warnings_of(Fork fork) {
  add_warnings(fork);
  return fork.warnings;
}

// Over 1 s of two processors: the worker used `own` and others used `others` milliseconds.
Fork watched_fork(std::int64_t own, std::int64_t others, std::int64_t steal) {
  Fork fork = steps_fork(0, 100);
  fork.disturbance = {.processors = 2,
                      .window_ns = 1'000'000'000,
                      .own_ns = own * 1'000'000,
                      .others_ns = others * 1'000'000,
                      .steal_ns = steal * 1'000'000};
  return fork;
}

TEST(Quality, FlagsWhatOthersTook) {
  EXPECT_THAT(flags_of(watched_fork(2000, 0, 0)), ::testing::IsEmpty());
  // 3 % of two processors for a second are 60 ms; 10 ms a processor are the counters' resolution.
  EXPECT_THAT(flags_of(watched_fork(1900, 79, 0)), ::testing::IsEmpty());
  EXPECT_THAT(flags_of(watched_fork(1900, 81, 0)), ::testing::ElementsAre(quality_flag::disturbed));
  EXPECT_THAT(flags_of(watched_fork(1900, 0, 81)), ::testing::ElementsAre(quality_flag::stolen));
  EXPECT_THAT(flags_of(watched_fork(1900, -30, -30)), ::testing::IsEmpty());
}

TEST(Quality, KnowsWhetherAQuotaStoppedIt) {
  RunWindow window{.begin_ns = 0, .end_ns = 1'000'000'000};
  EXPECT_FALSE(stopped_by_quota(window));
  window.quota_stopped_ns = 9'000'000;
  EXPECT_FALSE(stopped_by_quota(window));
  window.quota_stopped_ns = 11'000'000;
  EXPECT_TRUE(stopped_by_quota(window));
}

TEST(Quality, WarnsOfMoreThreadsThanProcessors) {
  const auto warnings = [](const RunWindow& window) {
    Fork fork;
    Cell cell;
    cell.axes.threads = 2;
    warn_of_own_threads(fork, window, cell);
    return fork.warnings;
  };
  RunWindow window{.begin_ns = 0, .end_ns = 1'000'000'000, .processors = 2};
  window.disturbance = watched_fork(2000, 0, 0).disturbance;
  window.waited_ns = 900'000'000;
  EXPECT_THAT(warnings(window),
              ::testing::ElementsAre(::testing::HasSubstr("more threads compute than --threads")));
  window.waited_ns = 200'000'000;
  EXPECT_THAT(warnings(window), ::testing::IsEmpty());
  window.waited_ns = 900'000'000;
  window.disturbance = watched_fork(1500, 500, 0).disturbance;
  EXPECT_THAT(warnings(window), ::testing::IsEmpty()) << "it waited for others";
  window.disturbance = watched_fork(2000, 0, 0).disturbance;
  window.quota_stopped_ns = 500'000'000;
  EXPECT_THAT(warnings(window), ::testing::IsEmpty()) << "the quota stopped it";
}

TEST(Quality, WarnsOfWhatTheHypervisorTook) {
  Fork fork = watched_fork(1900, 0, 81);
  add_quality_flags(fork, Cell{});
  EXPECT_THAT(warnings_of(fork),
              ::testing::ElementsAre(::testing::HasSubstr("the hypervisor used over 3 %")));
  EXPECT_THAT(warnings_of(watched_fork(1900, 0, 0)), ::testing::IsEmpty());
}

TEST(Quality, DoesNotFlagAWorkerThatSleepsOrPreemptsItself) {
  Fork fork = watched_fork(600, 5, 0);
  for (Block& b : fork.blocks) {
    b.cpu_ns = (b.end_ns - b.begin_ns) / 2;
    b.involuntary_switches = 5000;
  }
  EXPECT_THAT(flags_of(fork), ::testing::IsEmpty());
}

TEST(Quality, WarnsOfDriftWithoutAFlag) {
  Fork drifting = steps_fork(0, 100);
  drifting.blocks = {block(BlockKind::timed, 0, 0, 100), block(BlockKind::timed, 0, 200, 100),
                     block(BlockKind::timed, 0, 400, 150), block(BlockKind::timed, 0, 600, 150)};
  EXPECT_THAT(flags_of(drifting), ::testing::IsEmpty());
  EXPECT_THAT(warnings_of(drifting),
              ::testing::ElementsAre(::testing::HasSubstr("the step time changed from")));
  EXPECT_THAT(warnings_of(steps_fork(0, 100)), ::testing::IsEmpty());
}

TEST(Quality, DoesNotWarnOfAColdFirstEpoch) {
  Fork fork = steps_fork(0, 100);
  fork.blocks = {block(BlockKind::timed, 1, 0, 300), block(BlockKind::timed, 2, 400, 100),
                 block(BlockKind::timed, 3, 600, 100), block(BlockKind::timed, 4, 800, 100)};
  EXPECT_THAT(warnings_of(fork), ::testing::IsEmpty());
}

TEST(Quality, WarnsOfAProcessorClockThatFellInTheTimedBlocks) {
  Fork fork = steps_fork(0, 100);
  fork.samples = {{700'000'000, 1, 1, 3e9}, {1'700'000'000, 1, 1, 2e9}};
  EXPECT_THAT(flags_of(fork), ::testing::IsEmpty());
  EXPECT_THAT(warnings_of(fork), ::testing::ElementsAre(::testing::HasSubstr("2000 to 3000 MHz")));
  fork.samples[1].time_ns = 100'000'000;  // in the warm-up
  EXPECT_THAT(warnings_of(fork), ::testing::IsEmpty());
}

}  // namespace
}  // namespace assay

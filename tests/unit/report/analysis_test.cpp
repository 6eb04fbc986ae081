#include "harness/report/analysis.hpp"

#include <gmock/gmock.h>

#include "harness/report/core_placement.hpp"
#include "harness/report/metrics.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;

TEST(Comparison, pairs_forks_within_rounds_so_that_a_slow_round_cancels) {
  Report report = test::sample_report(6);
  // Round 3 was three times as slow for both: the ratio does not move.
  for (CellReport& cell : report.cells)
    for (Block& block : cell.forks[3].blocks)
      block.end_ns = block.begin_ns + 3 * (block.end_ns - block.begin_ns);
  const auto ratio = time_ratio(report.cells[1], report.cells[0]);
  ASSERT_TRUE(ratio);
  EXPECT_NEAR(ratio->value, 4, 1e-9);
  EXPECT_NEAR(*ratio->lower, 4, 1e-9);
  EXPECT_NEAR(*ratio->upper, 4, 1e-9);
  EXPECT_EQ(ratio->n, 6);
}

TEST(Comparison, LeavesOutRoundsThatOneCellLacksOrThatWereDisturbed) {
  Report report = test::sample_report(6);
  report.cells[0].forks.erase(report.cells[0].forks.begin());
  report.cells[1].forks[5].flags = {"disturbed"};
  const auto ratio = time_ratio(report.cells[1], report.cells[0]);
  ASSERT_TRUE(ratio);
  EXPECT_EQ(ratio->n, 4);
  EXPECT_FALSE(ratio->lower) << "four rounds allow no interval";
}

TEST(Comparison, has_no_ratio_to_a_cell_that_is_not_clean) {
  Report report = test::sample_report(6);
  report.cells[0].flags = {"throttled"};
  EXPECT_FALSE(time_ratio(report.cells[1], report.cells[0]));
  EXPECT_FALSE(ranked_time(report.cells[0]));
  report.cells[0].flags.clear();
  report.cells[0].equivalence = {.checked = false, .reason = "not asked for"};
  EXPECT_FALSE(ranked_time(report.cells[0])) << "what was not verified is not ranked";
}

// Epochs 1 and 2 of a fork, each of that many milliseconds.
void set_epochs(Fork& fork, std::int64_t first, std::int64_t second) {
  fork.compile_seconds = 0;
  fork.blocks.clear();
  std::int64_t now = 1'000'000'000;
  for (const std::int64_t milliseconds : {first, second}) {
    Block block{.kind = BlockKind::timed, .steps = 10, .begin_ns = now};
    block.epoch = fork.blocks.empty() ? 1 : 2;
    block.end_ns = now += milliseconds * 1'000'000;
    fork.blocks.push_back(block);
  }
}

TEST(Analysis, PublishedRatiosAreComparedWithRatiosPairedInRounds) {
  Report report = test::sample_report(3);
  // A crash leaves the cells with unlike rounds, whose medians say something else.
  const std::int64_t times[] = {100, 400, 200};
  for (std::size_t i = 0; i < 3; ++i) {
    set_epochs(report.cells[0].forks[i], times[i], times[i]);
    set_epochs(report.cells[1].forks[i], 2 * times[i], 3 * times[i]);
  }
  report.cells[0].forks[2].status = Status::crashed;
  for (CellReport& cell : report.cells) {
    cell.flags = {"throttled"};
    cell.metrics = metrics_of(cell);
    cell.published.clear();
  }
  for (const char* metric :
       {"training_time", "epoch_time", "samples_per_second", "host_peak_rss", "plan_naive"})
    report.cells[1].published.push_back(
        {.metric = metric, .value = 2, .unit = "1", .to = report.cells[0].id, .source = "S"});
  report.cells[0].metrics["plan_naive"] = {.value = 10};
  report.cells[1].metrics["plan_naive"] = {.value = 40};
  const auto published = analyze(report).cells[1].published;
  EXPECT_DOUBLE_EQ(published[0].measured->value, 2.5) << "of both epochs, in each of two rounds";
  EXPECT_EQ(published[0].measured->n, 2);
  EXPECT_DOUBLE_EQ(published[1].measured->value, 3) << "of the second";
  EXPECT_DOUBLE_EQ(published[2].measured->value, 1.0 / 3) << "a rate, though both cells are flagged";
  EXPECT_DOUBLE_EQ(published[3].measured->value, 1);
  EXPECT_EQ(published[3].measured->n, 2);
  EXPECT_DOUBLE_EQ(published[4].measured->value, 4) << "of what was planned there are no rounds";
  EXPECT_EQ(published[4].measured->n, 0);
}

TEST(Comparison, WidensTheIntervalsOfLaterLooks) {
  Report report = test::sample_report(9);
  for (std::size_t i = 0; i < 9; ++i) {
    Block& block = report.cells[1].forks[i].blocks.back();
    block.end_ns += static_cast<std::int64_t>(i) * (block.end_ns - block.begin_ns) / 100;
  }
  const auto ratio = time_ratio(report.cells[1], report.cells[0]);
  ASSERT_TRUE(ratio && ratio->confidence);
  EXPECT_GE(*ratio->confidence, 0.996) << "the least and the greatest of nine";
  EXPECT_DOUBLE_EQ(*ratio->lower, ratio->least);
  EXPECT_DOUBLE_EQ(*ratio->upper, ratio->greatest);
}

TEST(Analysis, CellsThatAreNotClearlyApartHaveSeveralPlaces) {
  Report report = test::sample_report(6);
  // In every second round the second cell is faster, in the others slower.
  const auto scale = [&](std::size_t fork, double factor) {
    for (std::size_t b = 0; b < report.cells[1].forks[fork].blocks.size(); ++b) {
      const Block& base = report.cells[0].forks[fork].blocks[b];
      Block& block = report.cells[1].forks[fork].blocks[b];
      block.steps = base.steps;
      block.end_ns = block.begin_ns +
                     static_cast<std::int64_t>(factor * static_cast<double>(base.end_ns - base.begin_ns));
    }
  };
  for (std::size_t fork = 0; fork < 6; ++fork) scale(fork, fork % 2 == 0 ? 0.9 : 1.2);
  const Analysis all = analyze(report);
  for (const AnalyzedCell& cell : all.cells) {
    EXPECT_EQ(cell.rank, 1);
    EXPECT_EQ(cell.last_rank, 2);
    EXPECT_TRUE(cell.tied());
  }
  for (std::size_t fork = 0; fork < 6; ++fork) scale(fork, 1.1);
  const Analysis apart = analyze(report);
  EXPECT_EQ(apart.cells[1].rank, 2);
  EXPECT_FALSE(apart.cells[1].tied());
}

TEST(Analysis, RanksNothingBelowSixRoundsOfTheSamePair) {
  Report report = test::sample_report(6);
  EXPECT_TRUE(analyze(report).cells[1].rank);
  report.cells[1].forks[2].flags = {quality_flag::disturbed};
  const Analysis five = analyze(report);
  for (const AnalyzedCell& cell : five.cells) EXPECT_FALSE(cell.rank || cell.last_rank);
  EXPECT_EQ(five.groups[0].rounds, 5);
  EXPECT_NEAR(five.cells[1].ratio->value, 4, 1e-9) << "the ratio is shown, without an interval";
}

TEST(Comparison, PairsForksOfOneSessionOnly) {
  Report report = test::sample_report(6);
  for (Fork& fork : report.cells[1].forks) fork.session = 1;
  EXPECT_FALSE(time_ratio(report.cells[1], report.cells[0]));
  EXPECT_FALSE(metric_ratio(report.cells[1], report.cells[0], "host_peak_rss"));
  EXPECT_EQ(shared_rounds(report.cells[1], report.cells[0]).all, 0);
  const Analysis all = analyze(report);
  EXPECT_FALSE(all.cells[0].rank || all.cells[1].rank);
  EXPECT_FALSE(all.cells[1].ratio);
  EXPECT_EQ(all.cells[1].to_fastest->n, 0);
  EXPECT_FALSE(all.families[0].leader);
  // Measured again together, the later rounds pair.
  for (const Fork& fork : std::vector<Fork>(report.cells[0].forks)) {
    report.cells[0].forks.push_back(fork);
    report.cells[0].forks.back().session = 1;
  }
  EXPECT_EQ(time_ratio(report.cells[1], report.cells[0])->n, 6);
  EXPECT_EQ(analyze(report).cells[1].rank, 2);
}

TEST(Disturbances, VoidARoundOnlyForPairsWithTheDisturbedFork) {
  Report report = test::sample_report(6);
  report.cells.push_back(test::sample_cell("mxnet", "hybridize", 0.004, 6));
  for (Fork& fork : report.cells[2].forks) fork.flags = {quality_flag::disturbed};
  report.cells[2].flags = {quality_flag::disturbed};
  report.cells[1].forks[1].flags = {quality_flag::frozen};
  EXPECT_EQ(time_ratio(report.cells[1], report.cells[0])->n, 5);
  EXPECT_EQ(ranked_time(report.cells[0]), ranked_time(test::sample_report(6).cells[0]))
      << "a fork of another cell";
  report.cells[1].forks[1].flags.clear();
  const Analysis all = analyze(report);
  EXPECT_EQ(all.cells[0].rank, 1);
  EXPECT_EQ(all.cells[1].rank, 2) << "a third cell that is always disturbed has no veto";
  EXPECT_FALSE(all.cells[2].rank);
}

TEST(Disturbances, NoFlagOfARoundIsLeftInAReportOfOlderRules) {
  Report report = test::sample_report(6);
  report.rules = 3;
  for (CellReport& cell : report.cells) cell.forks[1].flags = {"disturbed_round", "cpu_quota_round"};
  report.cells[0].forks[1].flags.emplace_back("disturbed");
  report.cells[0].forks[2].flags = {"fewer_threads"};
  derive_again(report);
  EXPECT_EQ(report.rules, derivation_rules);
  EXPECT_THAT(report.cells[0].forks[1].flags, ElementsAre("disturbed"));
  EXPECT_THAT(report.cells[0].forks[2].flags, ElementsAre("fewer_threads"));
  EXPECT_THAT(report.cells[1].forks[1].flags, ::testing::IsEmpty());
  EXPECT_EQ(report.cells[1].metrics.at("step_time").n, 6) << "only the other cell's fork was disturbed";
  EXPECT_EQ(report.cells[0].metrics.at("step_time").n, 4);
  for (const CellReport& cell : report.cells)
    for (const Fork& fork : cell.forks) EXPECT_THAT(fork.warnings, ::testing::IsEmpty());
}

CorePlacement placed(CoreReading reading) { return {.before = reading, .after = reading}; }

TEST(Placement, DropsAForkThatBeganOnASharedCoreOrFarApartAndNoOther) {
  Report report = test::sample_report(4);
  const CoreReading usual{1.0, 50}, near{1.0, 90}, far{1.0, 250}, shared{2.0, 20}, moving{1.0, 20};
  for (CellReport& cell : report.cells)
    for (Fork& fork : cell.forks) fork.placement = placed(usual);
  std::vector<Fork>& forks = report.cells[0].forks;
  forks[0].placement = placed(near);
  forks[1].placement->before = far;
  forks[2].placement->before = shared;
  forks[3].placement->after = far;
  report.cells[1].forks[3].placement->before = moving;
  mark_disturbances(report.cells);
  EXPECT_TRUE(counts(forks[0]));
  EXPECT_FALSE(counts(forks[1]));
  EXPECT_FALSE(counts(forks[2]));
  EXPECT_TRUE(counts(forks[3])) << "what was read after the run depends on the program";
  EXPECT_TRUE(counts(report.cells[1].forks[1])) << "another program in the same round";
  const SharedRounds shared_by_both = shared_rounds(report.cells[0], report.cells[1]);
  EXPECT_EQ(shared_by_both.ok - shared_by_both.counting, 2);
}

TEST(Placement, AllowsForClocksThatFallWithTheNumberOfBusyCores) {
  const CoreReading usual{1.45, 50};
  EXPECT_FALSE(is_worse_placed({1.6, 50}, usual));
  EXPECT_TRUE(is_worse_placed({2.0, 50}, usual));
}

TEST(Placement, IsComparedWithWhatIsUsualInTheSession) {
  Report report = test::sample_report(4);
  report.cells.resize(1);
  std::vector<Fork>& forks = report.cells[0].forks;
  for (Fork& fork : forks) fork.placement = placed({2.0, 20});  // always on one core
  mark_disturbances(report.cells);
  EXPECT_TRUE(counts(forks[0]));
  forks[3].placement = placed({1.0, 250});
  mark_disturbances(report.cells);
  EXPECT_FALSE(counts(forks[0])) << "an earlier fork, since a better one was read";
  EXPECT_TRUE(counts(forks[3])) << "a core each, without a nearer reading";
  forks[3].session = 1;
  mark_disturbances(report.cells);
  EXPECT_TRUE(counts(forks[0]));
}

TEST(Placement, IsOfBothReadingsBetweenRunsOfOneProgram) {
  Report quiet = test::sample_report(3), moved = test::sample_report(3);
  for (Report* report : {&quiet, &moved})
    for (CellReport& cell : report->cells)
      for (Fork& fork : cell.forks) fork.placement = placed({1.0, 50});
  for (Fork& fork : moved.cells[0].forks) fork.placement = placed({2.0, 20});  // all on one core
  moved.cells[1].forks[1].placement->after = {1.0, 250};
  moved.cells[1].forks[2].placement.reset();
  const std::vector<const CellReport*> cells{&quiet.cells[0], &quiet.cells[1], &moved.cells[0],
                                             &moved.cells[1]};
  const UsualPlacement usual(cells);
  EXPECT_FALSE(usual.is_moved(quiet.cells[0], quiet.cells[0].forks[0]));
  for (const Fork& fork : moved.cells[0].forks) EXPECT_TRUE(usual.is_moved(moved.cells[0], fork));
  const std::vector<Fork>& forks = moved.cells[1].forks;
  EXPECT_FALSE(usual.is_moved(moved.cells[1], forks[0]));
  EXPECT_TRUE(usual.is_moved(moved.cells[1], forks[1])) << "it was moved while it ran";
  EXPECT_FALSE(usual.is_moved(moved.cells[1], forks[2])) << "no reading";
  EXPECT_FALSE(UsualPlacement().is_moved(moved.cells[1], forks[1]));
}

TEST(Disturbances, TimeThatTheHypervisorTookDropsNoFork) {
  Report report = test::sample_report(6);
  for (CellReport& cell : report.cells)
    for (Fork& fork : cell.forks) fork.flags = {quality_flag::stolen};
  mark_disturbances(report.cells);
  for (const CellReport& cell : report.cells) {
    EXPECT_TRUE(counts(cell.forks[0])) << "two thread pools, whose threads often sleep";
    EXPECT_THAT(quality_flags(cell.forks), ::testing::IsEmpty());
  }
  EXPECT_TRUE(analyze(report).cells[0].rank);
}

TEST(Analysis, groups_only_cells_with_the_same_work) {
  Report report = test::sample_report(1);
  CellReport bf16 = report.cells[0];
  bf16.axes.precision = PrecisionKind::bf16;
  report.cells.push_back(bf16);
  const auto groups = analyze(report).groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].cells.size(), 2u);
}

TEST(Analysis, takes_the_bare_library_as_baseline_even_if_slower) {
  Report report = test::sample_report(2);
  report.cells.push_back(test::sample_cell("onednn", "eager", 0.005, 2));
  report.cells.push_back(test::sample_cell("torch", "eager", 0.001, 2));
  const auto baseline = [&] { return analyze(report).groups.at(0).baselines.at(0); };
  EXPECT_EQ(baseline(), 0u);
  for (CellReport& cell : report.cells) cell.kind = BackendKind::framework;
  EXPECT_EQ(baseline(), 3u);
  for (CellReport& cell : report.cells) cell.status = Status::failed;
  EXPECT_FALSE(baseline());
}

TEST(Analysis, TaxIsOverTheBareLibraryAndNotOverAnEngine) {
  Report report = test::sample_report(6);
  report.cells[0].kind = BackendKind::engine;
  EXPECT_FALSE(analyze(report).cells[1].taxed) << "an engine is not a base";
  report.cells.push_back(test::sample_cell("onednn", "primitives", 0.004, 6));
  const Analysis all = analyze(report);
  EXPECT_EQ(all.groups.at(0).baselines.at(0), 2u) << "though the engine is faster";
  EXPECT_FALSE(all.cells[0].taxed);
  EXPECT_NEAR(all.cells[0].ratio->value, 0.5, 1e-9);
  EXPECT_EQ(all.cells[0].rank, 1) << "it is a contestant like any other";
  EXPECT_TRUE(all.cells[1].taxed);
  EXPECT_NEAR(all.cells[1].ratio->value, 2, 1e-9);
}

TEST(Analysis, ranks_clean_cells_then_timed_cells_then_others) {
  Report report = test::sample_report(6);
  report.cells.push_back(test::sample_cell("torch", "eager", 0.001, 6));
  report.cells.push_back(test::sample_cell("jax", "jit", 0.001, 0));
  report.cells[2].flags = {"throttled"};
  std::swap(report.cells[0], report.cells[3]);
  const Analysis all = analyze(report);
  EXPECT_THAT(all.groups.at(0).in_rank, ElementsAre(3u, 1u, 2u, 0u));
  EXPECT_EQ(all.cells[3].rank, 1);
  EXPECT_EQ(all.cells[1].rank, 2);
  EXPECT_FALSE(all.cells[2].rank);
}

TEST(Analysis, cells_of_several_reports_share_a_group_and_are_not_paired) {
  const std::vector<Report> reports{test::sample_report(6), test::sample_report(6)};
  const std::vector<std::string> labels{"old", "new"};
  const Analysis all = analyze(reports, labels);
  ASSERT_EQ(all.groups.size(), 1u);
  EXPECT_THAT(all.groups[0].baselines, ElementsAre(0u, 2u));
  EXPECT_EQ(all.cells[3].series, "torch compile @ new");
  EXPECT_NEAR(all.cells[3].ratio->value, 4, 1e-9);
  EXPECT_EQ(all.cells[3].ratio->n, 6);
  EXPECT_NEAR(all.cells[3].to_fastest->value, 4, 1e-9);
  EXPECT_EQ(all.cells[3].to_fastest->n, 0) << "of the medians: the first is in the other report";
  for (const AnalyzedCell& cell : all.cells) EXPECT_FALSE(cell.rank) << "no rank across reports";
  EXPECT_EQ(all.groups[0].rounds, 0);
  EXPECT_FALSE(all.families[0].leader);
}

TEST(Analysis, ASeriesHasTheNameOfItsReportOnlyNextToAnotherReport) {
  std::vector<Report> reports{test::sample_report(6), test::sample_report(6)};
  for (CellReport& cell : reports[1].cells) cell.axes.workload = "another";
  const std::vector<std::string> labels{"old", "new"};
  const Analysis all = analyze(reports, labels);
  ASSERT_EQ(all.groups.size(), 2u);
  EXPECT_EQ(all.cells[1].series, "torch compile");
  EXPECT_EQ(all.cells[3].series, "torch compile");
}

TEST(Analysis, the_leader_of_a_family_wins_at_most_sizes) {
  Report report;
  for (const int batch : {32, 64, 128})
    for (const auto& [backend, time] :
         {std::pair("onednn", 1e-3), std::pair("torch", batch == 64 ? 5e-4 : 3e-3)}) {
      report.cells.push_back(test::sample_cell(backend, "eager", time, 6));
      report.cells.back().axes.batch = batch;
    }
  const Analysis all = analyze(report);
  ASSERT_EQ(all.families.size(), 1u);
  const Leader leader = all.families[0].leader.value();
  EXPECT_EQ(leader.series, "onednn eager");
  EXPECT_EQ(leader.wins, 2);
  EXPECT_EQ(leader.sizes, 3);
  EXPECT_TRUE(leader.sure);
  ASSERT_EQ(leader.followers.size(), 1u);
  EXPECT_NEAR(leader.followers[0].low, 0.5, 1e-9);
  EXPECT_NEAR(leader.followers[0].high, 3, 1e-9);
}

TEST(Analysis, ATieIsNoWinOfTheLeader) {
  Report report;
  for (const int batch : {32, 64, 128, 256})
    for (const char* backend : {"torch", "onednn"}) {
      const bool clear = batch == 256 && std::string(backend) == "torch";
      report.cells.push_back(test::sample_cell(backend, "eager", clear ? 3e-3 : 1e-3, 6));
      report.cells.back().axes.batch = batch;
    }
  const Analysis all = analyze(report);
  const Leader leader = all.families.at(0).leader.value();
  EXPECT_EQ(leader.series, "onednn eager") << "torch comes first at three sizes, by nothing";
  EXPECT_EQ(leader.wins, 1);
  EXPECT_EQ(leader.sizes, 4);
  report.cells.resize(6);
  EXPECT_FALSE(analyze(report).families.at(0).leader);
}

TEST(Analysis, LossCurveIsOverAllOkForksAndTheirCommonEpochs) {
  Report report = test::sample_report(3);
  CellReport& cell = report.cells[0];
  for (Fork& fork : cell.forks) {
    fork.evaluations.clear();
    for (int epoch = 1; epoch <= 3; ++epoch)
      fork.evaluations.push_back(
          {.epoch = epoch, .split = DataSplit::train, .samples = 10, .loss = fork.round + 1.0});
  }
  cell.forks[0].evaluations.pop_back();
  cell.forks[2].flags = {"disturbed"};
  const auto curve = analyze(report).cells[0].train_loss;
  ASSERT_EQ(curve.size(), 2u);
  EXPECT_EQ(curve[1].epoch, 2);
  EXPECT_EQ(curve[1].n, 3) << "a disturbed machine does not change the loss";
  EXPECT_DOUBLE_EQ(curve[1].median, 2);
  EXPECT_DOUBLE_EQ(curve[1].low, 1);
  EXPECT_DOUBLE_EQ(curve[1].high, 3);
}

TEST(Analysis, a_published_step_time_becomes_a_rate) {
  Report report = test::sample_report(6);
  report.cells[1].published.push_back({.metric = "step_time", .value = 0.004, .unit = "s", .source = "S"});
  const auto published = analyze(report).cells[1].published;
  EXPECT_NEAR(*published[0].samples_per_second, *report.cells[0].metrics["samples_per_second"].value / 3,
              1e-6);
  EXPECT_NEAR(published[0].measured->value, 4, 1e-9);
  EXPECT_DOUBLE_EQ(*published[1].samples_per_second, 50000);
  EXPECT_FALSE(published[1].other);
}

// Cells of onednn at these batches, with a step of fixed + each * batch seconds in round 0, and 1 % more in each later one.
Report report_of_batches(const std::vector<std::int64_t>& batches, double fixed, double each, int forks) {
  Report report = test::sample_report(forks);
  report.cells.clear();
  for (const std::int64_t batch : batches) {
    CellReport cell = test::sample_cell("onednn", "graph", fixed + each * static_cast<double>(batch), forks);
    cell.axes.batch = batch;
    cell.id = cell_id(cell.axes);
    report.cells.push_back(std::move(cell));
  }
  return report;
}

const Growth* only_growth(const Analysis& all) {
  return all.families.size() == 1 && all.families[0].growth.size() == 1 ? &all.families[0].growth.front()
                                                                        : nullptr;
}

TEST(GrowthOverSize, FindsTheLineThroughTheTimes) {
  const Report report = report_of_batches({10, 100, 1000}, 1e-3, 2e-5, 1);
  const Analysis all = analyze(report);
  const Growth* growth = only_growth(all);
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->sizes, 3);
  EXPECT_EQ(growth->smallest, 10);
  EXPECT_EQ(growth->largest, 1000);
  EXPECT_NEAR(growth->fixed.value().value, 1e-3, 1e-8);
  EXPECT_NEAR(growth->each.value().value, 2e-5, 1e-10);
  EXPECT_LT(growth->misfit, 1e-4);
  EXPECT_EQ(growth->each->n, 1);
  EXPECT_FALSE(growth->each->lower);
}

TEST(GrowthOverSize, DoublesByAPowerThatASlowRoundDoesNotChange) {
  Report report = report_of_batches({64, 128, 256, 512}, 0, 1, 6);
  for (CellReport& cell : report.cells)
    for (Fork& fork : cell.forks)
      for (Block& block : fork.blocks) {
        const double batch = static_cast<double>(cell.axes.batch) / 64;
        const double slow = fork.round == 3 ? 3 : 1;
        block.end_ns = block.begin_ns + static_cast<std::int64_t>(slow * 1e9 * batch * batch * batch);
      }
  const Analysis all = analyze(report);
  const Growth* growth = only_growth(all);
  ASSERT_TRUE(growth);
  EXPECT_NEAR(growth->doubling.value, 8, 1e-6) << "of a product of square matrices";
  EXPECT_NEAR(growth->doubling.greatest, 8, 1e-6);
  EXPECT_TRUE(growth->doubling.lower);
  EXPECT_GT(growth->misfit, 0.5) << "no straight line";
  EXPECT_FALSE(growth->fixed || growth->each);
}

TEST(GrowthOverSize, NeedsThreeSizesWithARoundInCommon) {
  EXPECT_FALSE(only_growth(analyze(report_of_batches({10, 20}, 1e-3, 1e-5, 2))));
  Report report = report_of_batches({10, 20, 30}, 1e-3, 1e-5, 2);
  EXPECT_TRUE(only_growth(analyze(report)));
  report.cells[0].forks[0].status = Status::crashed;
  report.cells[1].forks[1].status = Status::crashed;
  EXPECT_FALSE(only_growth(analyze(report)));
  Report flagged = report_of_batches({10, 20, 30}, 1e-3, 1e-5, 2);
  flagged.cells[2].flags = {"throttled"};
  EXPECT_FALSE(only_growth(analyze(flagged))) << "a cell that may not be ranked";
}

TEST(GrowthOverSize, ReadsTheOnlyNumberOfAnOpsSize) {
  Report report = report_of_batches({1, 2, 3}, 1e-3, 1e-3, 1);
  const auto with_sizes = [&](const std::vector<std::string>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      Axes& axes = report.cells[i].axes;
      axes.workload = "op/relu";
      axes.batch = 0;
      axes.size = sizes[i];
      report.cells[i].id = cell_id(axes);
    }
    const Analysis all = analyze(report);
    return only_growth(all) ? only_growth(all)->largest : 0;
  };
  EXPECT_EQ(with_sizes({"100", "200", "4096"}), 4096);
  EXPECT_EQ(with_sizes({"m64", "m128", "m256"}), 256);
  EXPECT_EQ(with_sizes({"m64n1", "m128n1", "m256n1"}), 0);
}

// Validation accuracies after epochs 1, 2, ...; each epoch takes a second, and compiling half a second.
void set_accuracies(Fork& fork, const std::vector<double>& accuracies) {
  fork.compile_seconds = 0.5;
  fork.blocks.clear();
  fork.evaluations.clear();
  for (std::size_t i = 0; i < accuracies.size(); ++i) {
    const int epoch = static_cast<int>(i) + 1;
    Block block{.kind = BlockKind::timed, .steps = 10, .begin_ns = 1'000'000'000 * (10 + 2 * epoch)};
    block.epoch = epoch;
    block.end_ns = block.begin_ns + 1'000'000'000;
    fork.blocks.push_back(block);
    fork.evaluations.push_back(
        {.epoch = epoch, .split = DataSplit::validation, .samples = 10, .accuracy = accuracies[i]});
  }
}

TEST(TimeToAccuracy, IsTheMedianOverForksOfTheFirstEpochThatHasIt) {
  Report report = test::sample_report(3);
  std::vector<Fork>& forks = report.cells[0].forks;
  set_accuracies(forks[0], {0.5, 0.9, 0.7});
  set_accuracies(forks[1], {0.9, 0.9, 0.9});
  set_accuracies(forks[2], {0.1, 0.2, 0.95});
  const auto found = time_to_accuracy(analyze(report).cells[0], 0.9);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->split, DataSplit::validation);
  EXPECT_EQ(found->reached, 3);
  EXPECT_DOUBLE_EQ(*found->value, 2.5);
  EXPECT_EQ(*found->epochs, 2);
  EXPECT_FALSE(found->lower) << "three forks have no interval";
}

TEST(TimeToAccuracy, CountsAForkThatDoesNotReachItAsLongerThanAny) {
  Report report = test::sample_report(7);
  std::vector<Fork>& forks = report.cells[0].forks;
  for (std::size_t i = 0; i < forks.size(); ++i) set_accuracies(forks[i], {0.5, i < 4 ? 0.9 : 0.6});
  const auto most = time_to_accuracy(analyze(report).cells[0], 0.9);
  ASSERT_TRUE(most);
  EXPECT_EQ(most->reached, 4);
  EXPECT_EQ(most->forks, 7);
  EXPECT_DOUBLE_EQ(*most->value, 2.5);
  EXPECT_TRUE(most->lower);
  EXPECT_FALSE(most->upper) << "three forks are above every number";
  set_accuracies(forks[3], {0.5, 0.6});
  const auto few = time_to_accuracy(analyze(report).cells[0], 0.9);
  EXPECT_EQ(few->reached, 3);
  EXPECT_FALSE(few->value);
}

TEST(TimeToAccuracy, FallsBackToTheTestSplitAndNeedsAnEvaluationAfterAnEpoch) {
  Report report = test::sample_report(1);
  EXPECT_FALSE(time_to_accuracy(analyze(report).cells[0], 0.5)) << "evaluated after steps";
  set_accuracies(report.cells[0].forks[0], {0.9});
  report.cells[0].forks[0].evaluations[0].split = DataSplit::test;
  const auto found = time_to_accuracy(analyze(report).cells[0], 0.5);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->split, DataSplit::test);
}

}  // namespace
}  // namespace assay

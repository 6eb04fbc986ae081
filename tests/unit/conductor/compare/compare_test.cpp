#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/compare/cell_decision.hpp"

#include <algorithm>

#include <gmock/gmock.h>

#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/metrics.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using cli::exit_code;
using ::testing::HasSubstr;

Report report_of(std::vector<CellReport> cells) {
  Report report;
  report.environment.cpu.model = "a processor";
  report.cells = std::move(cells);
  for (CellReport& cell : report.cells) cell.metrics = metrics_of(cell);
  return report;
}

CellReport lenet(double step_seconds, int forks = 12) {
  return test::sample_cell("onednn", "graph", step_seconds, forks);
}

CellVerdict only(const Comparison& comparison) {
  EXPECT_EQ(comparison.cells.size(), 1U);
  return comparison.cells.front();
}

TEST(MainMetric, IsOneThatTheCellHas) {
  Axes axes;
  axes.measure = "steps";
  EXPECT_EQ(main_metric(axes), "step_time");
  axes.task = Task::infer;
  EXPECT_EQ(main_metric(axes), "latency_p50");
  axes.size = "4096";  // a single op
  EXPECT_EQ(main_metric(axes), "step_time");
}

TEST(Compare, a_slower_cell_is_a_regression) {
  const Comparison comparison = compare(report_of({lenet(2e-3)}), report_of({lenet(2.6e-3)}), {});
  EXPECT_EQ(only(comparison).verdict, Verdict::slower);
  EXPECT_EQ(only(comparison).metric, "step_time");
  EXPECT_EQ(exit_code(comparison), 3);
}

TEST(Compare, equal_reports_are_the_same) {
  const Report report = report_of({lenet(2e-3), test::sample_cell("torch", "compile", 8e-3, 12)});
  CompareSettings settings;
  settings.threshold = 0.10;
  const Comparison comparison = compare(report, report, settings);
  EXPECT_EQ(comparison.count(Verdict::same), 2);
  EXPECT_EQ(exit_code(comparison), 0);
}

TEST(Compare, shares_the_confidence_among_its_cells) {
  const Report report = report_of({lenet(2e-3), test::sample_cell("torch", "compile", 8e-3, 12)});
  EXPECT_NEAR(compare(report, report, {}).cell_confidence, 1 - 0.05 / 2, 1e-12)
      << "accuracies have an error of their own";
}

TEST(Compare, a_cell_that_one_side_lacks_is_missing_or_new) {
  const Report both = report_of({lenet(2e-3), test::sample_cell("torch", "compile", 8e-3, 12)});
  const Report one = report_of({lenet(2e-3)});
  const Comparison lost = compare(both, one, {}), gained = compare(one, both, {});
  EXPECT_EQ(lost.count(Verdict::missing), 1);
  EXPECT_EQ(exit_code(lost), 4);
  EXPECT_EQ(gained.count(Verdict::added), 1);
  EXPECT_NE(exit_code(gained), 4);
}

TEST(Compare, a_comparison_of_nothing_is_incomplete) {
  CellReport broken = lenet(2e-3);
  broken.status = Status::unavailable;
  const Report report = report_of({broken});
  EXPECT_EQ(exit_code(compare(report, report, {})), 4);
}

TEST(Compare, a_cell_failing_on_both_sides_is_unmeasured) {
  CellReport crashed = test::sample_cell("torch", "eager", 8e-3, 12), absent = crashed;
  crashed.status = Status::crashed;
  absent.status = Status::unavailable;
  const auto compared = [](const CellReport& cell) {
    const Report report = report_of({lenet(2e-3), cell});
    CompareSettings settings;
    settings.threshold = 0.10;
    return compare(report, report, settings);
  };
  EXPECT_EQ(compared(crashed).count(Verdict::unmeasured), 1);
  EXPECT_EQ(exit_code(compared(crashed)), 4);
  EXPECT_EQ(compared(absent).count(Verdict::unmeasured), 1);
  EXPECT_EQ(exit_code(compared(absent)), 0);
}

TEST(Compare, another_gpu_or_driver_makes_its_cells_incomparable) {
  Report base = report_of({lenet(2e-3)});
  base.environment.gpus = std::vector<GpuRecord>{{.model = "A Card", .uuid = "GPU-0"}};
  base.environment.nvml.driver = "550.54";
  Report same = base, other_card = base, other_driver = base;
  same.environment.gpus->at(0).uuid = "GPU-1";
  other_card.environment.gpus->at(0).model = "Another Card";
  other_driver.environment.nvml.driver = "580.65";
  EXPECT_TRUE(environment_differences(base, same).empty());
  ASSERT_EQ(environment_differences(base, other_card).size(), 1U);
  EXPECT_TRUE(environment_differences(base, other_card)[0].hard);
  ASSERT_EQ(environment_differences(base, other_driver).size(), 1U);
  EXPECT_EQ(environment_differences(base, other_driver)[0].current, "580.65");
  EXPECT_FALSE(environment_differences(base, other_driver)[0].hard) << "its cells ran on the processor";
  for (Report* report : {&base, &other_driver}) {
    CellReport& cell = report->cells[0];
    cell.axes.device = DeviceKind::cuda;
    cell.id = cell_id(cell.axes);
  }
  EXPECT_TRUE(environment_differences(base, other_driver)[0].hard);
}

TEST(EnvironmentDifferences, TwoForkStylesAreTwoExperiments) {
  const Report fresh = report_of({lenet(2e-3)});
  Report resident = fresh, said = fresh;
  said.run.settings.fork_style = "fresh";
  resident.run.settings.fork_style = "resident";
  EXPECT_TRUE(environment_differences(fresh, said).empty()) << "reports of before had fresh forks only";
  ASSERT_EQ(environment_differences(fresh, resident).size(), 1U);
  EXPECT_TRUE(environment_differences(fresh, resident)[0].hard);
  EXPECT_EQ(environment_differences(fresh, resident)[0].current, "resident");
}

TEST(Compare, a_status_that_got_worse_is_broken) {
  CellReport crashed = lenet(2e-3);
  crashed.status = Status::crashed;
  crashed.reason = "killed by SIGSEGV";
  const Comparison comparison = compare(report_of({lenet(2e-3)}), report_of({crashed}), {});
  EXPECT_EQ(only(comparison).verdict, Verdict::broken);
  EXPECT_THAT(only(comparison).reason, HasSubstr("SIGSEGV"));
  EXPECT_EQ(exit_code(comparison), 3);
}

TEST(Compare, lost_equivalence_is_broken_though_it_is_faster) {
  CellReport wrong = lenet(1e-3);
  wrong.equivalence = {.checked = true, .passed = false, .worst = 7};
  EXPECT_EQ(only(compare(report_of({lenet(2e-3)}), report_of({wrong}), {})).verdict, Verdict::broken);
}

TEST(Compare, a_fall_of_accuracy_is_broken_and_a_wobble_is_not) {
  const auto with_accuracy = [](double accuracy) {
    CellReport cell = lenet(2e-3);
    for (std::size_t i = 0; i < cell.forks.size(); ++i)
      cell.forks[i].evaluations[0].accuracy = accuracy + 0.001 * static_cast<double>(i % 3);
    return report_of({cell});
  };
  CompareSettings settings;
  settings.threshold = 0.10;
  const auto decided = [&](double before, double after) {
    return only(compare(with_accuracy(before), with_accuracy(after), settings));
  };
  EXPECT_EQ(decided(0.88, 0.85).verdict, Verdict::broken);
  EXPECT_THAT(decided(0.88, 0.85).reason, HasSubstr("test_accuracy fell"));
  EXPECT_EQ(decided(0.88, 0.875).verdict, Verdict::same);
}

TEST(Compare, the_metric_says_whether_more_is_better) {
  const auto with_accuracy = [](double accuracy) {
    CellReport cell = lenet(2e-3);
    for (std::size_t i = 0; i < cell.forks.size(); ++i)
      cell.forks[i].evaluations[0].accuracy = accuracy + 0.001 * static_cast<double>(i % 3);
    return report_of({cell});
  };
  const auto decided = [&](double before, double after, const char* metric) {
    CompareSettings settings;
    settings.metric = metric;
    return only(compare(with_accuracy(before), with_accuracy(after), settings)).verdict;
  };
  EXPECT_EQ(decided(0.70, 0.90, "test_accuracy"), Verdict::faster) << "a gain, though the number grew";
  CompareSettings rates;
  rates.metric = "samples_per_second";
  const auto verdict = [&](double before, double after) {
    return only(compare(report_of({lenet(before)}), report_of({lenet(after)}), rates)).verdict;
  };
  EXPECT_EQ(verdict(2e-3, 1e-3), Verdict::faster);
  EXPECT_EQ(verdict(1e-3, 2e-3), Verdict::slower);
}

TEST(Compare, growing_memory_is_broken) {
  CellReport larger = lenet(2e-3);
  for (Fork& fork : larger.forks) fork.memory["planned_arena"] = 5'000'000;
  const CellVerdict cell = only(compare(report_of({lenet(2e-3)}), report_of({larger}), {}));
  EXPECT_EQ(cell.verdict, Verdict::broken);
  EXPECT_THAT(cell.reason, HasSubstr("planned_arena grew"));
}

TEST(Compare, MemoryWhoseForksOverlapHasNotGrown) {
  CellReport base = lenet(2e-3), larger = base;
  for (std::size_t i = 0; i < base.forks.size(); ++i) {
    base.forks[i].host_peak_rss = i < 7 ? 100'000'000 : 200'000'000;
    larger.forks[i].host_peak_rss = 150'000'000;
  }
  EXPECT_NE(only(compare(report_of({base}), report_of({larger}), {})).verdict, Verdict::broken);
  for (Fork& fork : base.forks) fork.host_peak_rss = 100'000'000;
  EXPECT_EQ(only(compare(report_of({base}), report_of({larger}), {})).verdict, Verdict::broken);
}

TEST(Compare, refuses_another_processor_or_library_unless_allowed) {
  const Report base = report_of({lenet(2e-3)});
  Report elsewhere = base;
  elsewhere.environment.cpu.model = "another";
  EXPECT_EQ(exit_code(compare(base, elsewhere, {})), 5);
  const auto code_with = [&](const Report& current, const char* word) {
    CompareSettings meant;
    meant.overlooked = Allowed::parse({word});
    return exit_code(compare(base, current, meant));
  };
  EXPECT_NE(code_with(elsewhere, "environment"), 5);
  EXPECT_NE(code_with(elsewhere, "processor"), 5);
  EXPECT_EQ(code_with(elsewhere, "libraries"), 5);
  Report newer = base;
  newer.cells[0].libraries[0].version = "1.1";
  const Comparison comparison = compare(base, newer, {});
  ASSERT_EQ(comparison.environment.size(), 1U);
  EXPECT_EQ(comparison.environment[0].what, "the version of onednn: onednn");
  EXPECT_EQ(allowing(comparison.environment[0]), "libraries:onednn");
  EXPECT_NE(code_with(newer, "libraries"), 5);
  EXPECT_NE(code_with(newer, "libraries:onednn"), 5);
  EXPECT_EQ(code_with(newer, "libraries:torch"), 5);
  EXPECT_EQ(code_with(newer, "processor"), 5);
  Report unknown = base;
  unknown.environment.cpu.model = {};
  EXPECT_FALSE(compare(base, unknown, {}).comparable());
}

TEST(Compare, ComparesARebuiltWorkerInsteadOfRefusingIt) {
  const auto built = [](const char* id, double step_seconds) {
    Report report = report_of({lenet(step_seconds)});
    report.cells[0].libraries.push_back({.name = "worker", .version = id, .path = {}, .under_test = true});
    return report;
  };
  EXPECT_EQ(exit_code(compare(built("build-id 1", 2e-3), built("build-id 2", 2.6e-3), {})), 3);
}

TEST(Allowed, RefusesUnknownWordsWithASuggestion) {
  const auto message = [](const char* word) -> std::string {
    try {
      Allowed::parse({word});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(message("procesor"), HasSubstr("processor"));
  EXPECT_THAT(message("libraries:"), HasSubstr("must be one of"));
  const Report report = report_of({lenet(2e-3)});
  EXPECT_NO_THROW(Allowed::parse({"libraries:onednn"}).require_known({&report}));
  EXPECT_THROW(Allowed::parse({"libraries:onedn"}).require_known({&report}), ConfigError);
}

TEST(Compare, NoiseThatHidesAChangeIsInconclusiveAndSaysWhatHelps) {
  const auto noisy = [] {
    CellReport cell = lenet(2e-3, 6);
    for (std::size_t i = 0; i < cell.forks.size(); ++i)
      for (Block& block : cell.forks[i].blocks)
        block.end_ns = block.begin_ns + (block.end_ns - block.begin_ns) * (i % 2 == 0 ? 10 : 12) / 10;
    return report_of({cell});
  }();
  const Comparison comparison = compare(noisy, noisy, {});
  const CellVerdict cell = only(comparison);
  EXPECT_EQ(cell.verdict, Verdict::inconclusive);
  EXPECT_THAT(cell.reason, HasSubstr("compare with 5 baselines with --forks "));
  EXPECT_EQ(cell.baselines_needed, 5);
  EXPECT_GT(cell.forks_needed.value_or(0), 6);
  EXPECT_GT(*cell.detectable, 0.10);
  EXPECT_EQ(exit_code(comparison), 6);
  CompareSettings settings;
  settings.detect = 2;
  EXPECT_EQ(only(compare(noisy, noisy, settings)).verdict, Verdict::same)
      << "a change of 200 % would be seen";
  settings.detect = 0.05;
  EXPECT_THROW(compare(noisy, noisy, settings), ConfigError)
      << "the threshold itself is found half of the time";
  settings = {};
  settings.overlooked = {Overlooked::inconclusive};
  EXPECT_EQ(exit_code(compare(noisy, noisy, settings)), 0);
}

TEST(Compare, OneForkOfARunShowsNothing) {
  const CellVerdict cell = only(compare(report_of({lenet(2e-3, 1)}), report_of({lenet(6e-3, 1)}), {}));
  EXPECT_EQ(cell.verdict, Verdict::inconclusive);
  EXPECT_THAT(cell.reason, HasSubstr("--forks 6"));
}

// Cells of one report, as if of several networks.
Report of_cells(const std::vector<double>& step_seconds) {
  std::vector<CellReport> cells;
  for (std::size_t i = 0; i < step_seconds.size(); ++i) {
    cells.push_back(lenet(step_seconds[i], 6));
    cells.back().axes.batch = static_cast<std::int64_t>(1 + i);
    cells.back().id = cell_id(cells.back().axes);
  }
  return report_of(std::move(cells));
}

TEST(Compare, AShiftOfAllCellsIsOneFindingAndNotGreen) {
  const Report base = of_cells({1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 6e-3}),
               now = of_cells({1.2e-3, 2.4e-3, 3.6e-3, 4.8e-3, 6e-3, 7.2e-3});
  const std::vector<const Report*> bases{&base, &base, &base};
  const Comparison comparison = compare(bases, now, {});
  EXPECT_EQ(comparison.count(Verdict::slower), 0);
  ASSERT_TRUE(comparison.shift);
  EXPECT_NEAR(comparison.shift->ratio, 1.2, 1e-6);
  EXPECT_EQ(comparison.shift->cells, 6);
  EXPECT_TRUE(comparison.shifted());
  EXPECT_EQ(exit_code(comparison), 6);
  CompareSettings settings;
  settings.overlooked = {Overlooked::shift};
  EXPECT_EQ(exit_code(compare(bases, now, settings)), 0);
  EXPECT_FALSE(compare({&now, &now, &now}, base, {}).shifted()) << "faster is no regression";
}

TEST(Compare, DecidesEachCellWithoutTheSharedShift) {
  const Report base = of_cells({1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 6e-3}),
               now = of_cells({1.02e-3, 2.04e-3, 3.06e-3, 4.08e-3, 5.1e-3, 8e-3});
  const Comparison comparison = compare({&base, &base, &base}, now, {});
  EXPECT_EQ(comparison.count(Verdict::slower), 1);
  EXPECT_EQ(comparison.count(Verdict::same), 5);
  EXPECT_NEAR(comparison.shift->ratio, 1.02, 1e-3);
  EXPECT_EQ(exit_code(comparison), 3);
}

TEST(Compare, LeavesOutBaselinesThatAreNotComparable) {
  const Report base = report_of({lenet(2e-3)});
  Report elsewhere = base, quick = base, slow = base;
  elsewhere.environment.cpu.model = "another";
  const Comparison without = compare({&elsewhere, &base}, base, {});
  EXPECT_EQ(without.baselines, 1);
  EXPECT_TRUE(without.comparable());
  EXPECT_THAT(without.notes.at(0), HasSubstr("left out 1 of 2 baselines: the processor was another"));
  EXPECT_EQ(exit_code(compare({&elsewhere, &elsewhere}, base, {})), 5);
  Report at_300 = base, at_350 = base;
  at_300.environment.cpu.loop_seconds = 300e-6;
  at_350.environment.cpu.loop_seconds = 350e-6;
  const Comparison of_speed = compare({&at_350, &at_300}, at_300, {});
  EXPECT_EQ(of_speed.baselines, 1);
  EXPECT_THAT(of_speed.notes.at(0), HasSubstr("the time of a fixed loop on its processor was 350 us"));
  EXPECT_EQ(exit_code(compare(at_350, at_300, {})), 5);
  quick.run.quick = true;
  const Comparison of_cell = compare({&quick, &base}, base, {});
  EXPECT_EQ(only(of_cell).baselines, 1);
  EXPECT_THAT(of_cell.notes.at(0), HasSubstr("--quick"));
}

TEST(Compare, TheNewestBaselineSaysWhichCellsThereAre) {
  const CellReport torch = test::sample_cell("torch", "compile", 8e-3, 12);
  const Report older = report_of({lenet(2e-3), torch}), newer = report_of({lenet(2e-3)});
  EXPECT_EQ(compare({&older, &newer}, newer, {}).cells.size(), 1U);
  EXPECT_EQ(compare({&newer, &older}, newer, {}).count(Verdict::missing), 1);
  CellReport crashed = lenet(2e-3);
  crashed.status = Status::crashed;
  const Report failed = report_of({crashed});
  EXPECT_EQ(compare({&newer, &failed}, failed, {}).count(Verdict::broken), 1)
      << "it was ok in an older baseline";
}

TEST(Compare, ComparesDifferencesOfAMetricThatMayBeZero) {
  const auto with_faults = [](std::int64_t faults) {
    CellReport cell = lenet(2e-3, 6);
    for (Fork& fork : cell.forks)
      for (Block& block : fork.blocks) block.minor_faults = faults * block.steps;
    return report_of({cell});
  };
  CompareSettings settings;
  settings.metric = "page_faults";
  settings.detect = 0.5;
  const auto decided = [&](std::int64_t before, std::int64_t after) {
    return only(compare(with_faults(before), with_faults(after), settings));
  };
  EXPECT_EQ(decided(0, 0).verdict, Verdict::same);
  EXPECT_EQ(decided(0, 500).verdict, Verdict::slower);
  EXPECT_EQ(decided(500, 0).verdict, Verdict::faster);
  EXPECT_THAT(decided(0, 500).reason, HasSubstr("differences are compared: 500"));
}

// A change to the report that is held to, and what overlooks it.
struct Doubtful {
  const char* name;
  void (*change)(Report&);
  const char* said;
  Overlooked overlooked;
};
class DoubtfulSide : public ::testing::TestWithParam<Doubtful> {};

TEST_P(DoubtfulSide, DecidesNothingUnlessThatIsMeant) {
  Report base = report_of({lenet(2e-3)}), slower = report_of({lenet(2.6e-3)});
  for (Report* report : {&base, &slower}) {
    report->run.quick = false;
    report->run.sessions.emplace_back().variables = {{"OMP_PROC_BIND", "true"}};
    report->cells[0].settings = {{"clock", {{"blocks", 10}}}, {"check", {{"distinct", 4}}}};
    for (Fork& fork : report->cells[0].forks) {
      fork.settings = {{"threads", "2"}, {"wait_policy", "active"}};
      fork.data_digest = "ab";
    }
  }
  EXPECT_EQ(only(compare(base, slower, {})).verdict, Verdict::slower);
  GetParam().change(base);
  const Comparison comparison = compare(base, slower, {});
  EXPECT_EQ(only(comparison).verdict, Verdict::inconclusive);
  EXPECT_THAT(only(comparison).reason, HasSubstr(GetParam().said));
  EXPECT_EQ(exit_code(comparison), 6);
  CompareSettings settings;
  settings.overlooked = {GetParam().overlooked};
  EXPECT_EQ(only(compare(base, slower, settings)).verdict, Verdict::slower);
}

INSTANTIATE_TEST_SUITE_P(
    Of, DoubtfulSide,
    ::testing::Values(Doubtful{"quick", [](Report& r) { r.run.quick = true; }, "--quick", Overlooked::quick},
                      Doubtful{"blocks", [](Report& r) { r.cells[0].settings["clock"]["blocks"] = 5; },
                               "'clock' was", Overlooked::settings},
                      Doubtful{"observed",
                               [](Report& r) { r.cells[0].forks[3].settings["wait_policy"] = "passive"; },
                               "wait_policy was active or passive and is active", Overlooked::settings},
                      Doubtful{"data",
                               [](Report& r) {
                                 for (Fork& fork : r.cells[0].forks) fork.data_digest = "cd";
                               },
                               "the checksum of the data set", Overlooked::settings},
                      Doubtful{"variable", [](Report& r) { r.run.sessions[0].variables.clear(); },
                               "OMP_PROC_BIND was not set and is true", Overlooked::settings},
                      Doubtful{"profiled", [](Report& r) { r.run.settings.profile = true; }, "--profile",
                               Overlooked::profiled},
                      Doubtful{"unchecked", [](Report& r) { r.cells[0].equivalence = {}; }, "was not checked",
                               Overlooked::unchecked},
                      Doubtful{"seeds",
                               [](Report& r) {
                                 for (Fork& fork : r.cells[0].forks) fork.seed += 100;
                               },
                               "share no seed", Overlooked::seeds},
                      Doubtful{"accuracy",
                               [](Report& r) {
                                 for (Fork& fork : r.cells[0].forks) fork.evaluations.clear();
                               },
                               "only the new report has test_accuracy", Overlooked::metrics},
                      Doubtful{"memory", [](Report& r) { r.cells[0].metrics.erase("planned_arena"); },
                               "only the new report has planned_arena", Overlooked::metrics},
                      Doubtful{"flagged", [](Report& r) { r.cells[0].flags = {"disturbed"}; },
                               "the baseline has the flag disturbed", Overlooked::flags}),
    [](const auto& row) { return row.param.name; });

CompareSettings coarse() {
  CompareSettings settings;
  settings.threshold = 0.10;
  return settings;
}

CompareSettings allowing_flags() {
  CompareSettings settings = coarse();
  settings.overlooked = {Overlooked::flags};
  return settings;
}

// A report whose first `count` forks ran on one core and took twice as long.
Report moved(std::size_t count) {
  CellReport cell = lenet(2e-3);
  const CellReport slow = lenet(4e-3);
  for (std::size_t i = 0; i < cell.forks.size(); ++i) {
    const CoreReading usual{1.0, 50}, shared{2.0, 20};
    const bool is_moved = i < count;
    if (is_moved) cell.forks[i] = slow.forks[i];
    cell.forks[i].placement = CorePlacement{.before = usual, .after = is_moved ? shared : usual};
  }
  return report_of({cell});
}

TEST(Compare, LeavesOutForksThatTheHostMovedWhileTheyRan) {
  const Comparison comparison = compare(moved(0), moved(6), coarse());
  EXPECT_EQ(only(comparison).current_forks, 6);
  EXPECT_EQ(only(comparison).verdict, Verdict::same) << only(comparison).reason;
  EXPECT_THAT(comparison.notes,
              ::testing::ElementsAre(
                  HasSubstr("left out 0 of 12 forks of the baselines and 6 of 12 of the new report")));
  const Comparison all = compare(moved(0), moved(6), allowing_flags());
  EXPECT_EQ(only(all).current_forks, 12);
  EXPECT_THAT(all.notes, ::testing::IsEmpty());
}

TEST(Compare, DecidesNothingIfTheHostMovedAllForksOfASide) {
  for (const auto& [base, current] : {std::pair{moved(0), moved(12)}, std::pair{moved(12), moved(0)}}) {
    const CellVerdict cell = only(compare(base, current, {}));
    EXPECT_EQ(cell.verdict, Verdict::inconclusive);
    EXPECT_THAT(cell.reason, HasSubstr("--allow flags"));
    EXPECT_NE(only(compare(base, current, allowing_flags())).verdict, Verdict::inconclusive);
  }
  const Report now = moved(0), one = moved(12), other = moved(0);
  EXPECT_EQ(only(compare({&one, &other}, now, coarse())).baselines, 1);
}

TEST(Compare, DecidesNothingIfOnlySomeForksAreSlower) {
  CellReport cell = lenet(2e-3);
  const CellReport slow = lenet(6e-3);
  for (std::size_t i = 1; i < cell.forks.size(); ++i) cell.forks[i] = slow.forks[i];
  const CellVerdict found = only(compare(report_of({lenet(2e-3)}), report_of({cell}), {}));
  EXPECT_EQ(found.verdict, Verdict::inconclusive);
  EXPECT_THAT(found.reason, HasSubstr("the machine changed in mid-run"));
}

TEST(Compare, HowACellWasCheckedIsNoDifference) {
  Report base = report_of({lenet(2e-3)}), slower = report_of({lenet(2.6e-3)});
  base.cells[0].settings = {{"check", {{"distinct", 4}}}};
  slower.cells[0].settings = {{"check", {{"distinct", 8}}}};
  EXPECT_EQ(only(compare(base, slower, {})).verdict, Verdict::slower);
}

// A report whose forks have these accuracies over so many samples; seeds count from `seed`.
Report with_accuracies(const std::vector<double>& accuracies, std::int64_t samples = 10'000,
                       std::uint64_t seed = 1) {
  CellReport cell = lenet(2e-3, static_cast<int>(accuracies.size()));
  for (std::size_t i = 0; i < accuracies.size(); ++i) {
    cell.forks[i].seed = seed + i;
    cell.forks[i].evaluations[0].accuracy = accuracies[i];
    cell.forks[i].evaluations[0].samples = samples;
  }
  return report_of({cell});
}

TEST(CompareAccuracy, IsPairedBySeed) {
  // Seeds differ by far more than the change.
  const auto with_change = [](double change) {
    std::vector<double> accuracies;
    for (int i = 0; i < 12; ++i) accuracies.push_back(0.60 + 0.02 * i + change);
    return with_accuracies(accuracies);
  };
  const CellVerdict fell = only(compare(with_change(0), with_change(-0.02), coarse()));
  EXPECT_EQ(fell.verdict, Verdict::broken);
  EXPECT_THAT(fell.reason, HasSubstr("fell by 2.00 points over 12 shared seeds"));
  EXPECT_EQ(only(compare(with_change(0), with_change(-0.005), coarse())).verdict, Verdict::same);
}

TEST(CompareAccuracy, OneSeedDecidesWhatSamplesCannotExplain) {
  const auto decided = [](double before, double after, std::int64_t samples) {
    return only(compare(with_accuracies({before, before}, samples), with_accuracies({after, after}, samples),
                        coarse()));
  };
  EXPECT_EQ(decided(0.90, 0.10, 10'000).verdict, Verdict::broken);
  const CellVerdict by_chance = decided(0.90, 0.88, 100);
  EXPECT_EQ(by_chance.verdict, Verdict::inconclusive);
  EXPECT_THAT(by_chance.reason, HasSubstr("chance explains up to"));
}

TEST(CompareAccuracy, TheDefaultForksDecideAFallOfSomePoints) {
  const std::vector<double> before{0.90, 0.91, 0.89, 0.90, 0.905, 0.895},
      after{0.87, 0.88, 0.86, 0.871, 0.874, 0.866};
  EXPECT_EQ(only(compare(with_accuracies(before), with_accuracies(after), coarse())).verdict,
            Verdict::broken);
}

TEST(CompareAccuracy, IsBrokenWithOtherSeedsTooIfItIsCertain) {
  const std::vector<double> before(6, 0.90), after(6, 0.10);
  const CellVerdict cell =
      only(compare(with_accuracies(before), with_accuracies(after, 10'000, 101), coarse()));
  EXPECT_EQ(cell.verdict, Verdict::broken);
  EXPECT_THAT(cell.reason, HasSubstr("6 and 6 other seeds"));
}

TEST(CompareAccuracy, ForksOfOneSeedAreOneSeed) {
  const auto of_one_seed = [](double accuracy) {
    Report report = with_accuracies(std::vector<double>(12, accuracy), 1000);
    for (Fork& fork : report.cells[0].forks) fork.seed = 1;
    return report;
  };
  const CellVerdict certain = only(compare(of_one_seed(0.9), of_one_seed(0.8), coarse()));
  EXPECT_EQ(certain.verdict, Verdict::broken);
  EXPECT_THAT(certain.reason, HasSubstr("over 1 shared seed"));
  EXPECT_EQ(only(compare(of_one_seed(0.9), of_one_seed(0.88), coarse())).verdict, Verdict::inconclusive);
  EXPECT_EQ(only(compare(of_one_seed(0.9), of_one_seed(0.9), coarse())).verdict, Verdict::same);
}

TEST(Compare, refuses_a_report_with_a_duplicate_id) {
  EXPECT_THROW(compare(report_of({lenet(2e-3), lenet(3e-3)}), report_of({lenet(2e-3)}), {}), ConfigError);
  EXPECT_THROW(compare(report_of({lenet(2e-3)}), report_of({lenet(2e-3), lenet(3e-3)}), {}), ConfigError);
}

TEST(Compare, lists_problems_first) {
  CellReport crashed = test::sample_cell("torch", "eager", 8e-3, 12);
  const Report base = report_of({lenet(2e-3), crashed, test::sample_cell("torch", "compile", 8e-3, 12)});
  crashed.status = Status::crashed;
  const Report now = report_of({lenet(2.6e-3), crashed, test::sample_cell("torch", "compile", 6e-3, 12)});
  std::vector<Verdict> verdicts;
  for (const CellVerdict& cell : compare(base, now, {}).cells) verdicts.push_back(cell.verdict);
  EXPECT_THAT(verdicts, ::testing::ElementsAre(Verdict::broken, Verdict::slower, Verdict::faster));
}

TEST(Compare, compares_the_metric_that_is_asked_for_and_refuses_another) {
  CompareSettings settings;
  settings.metric = "samples_per_second";
  const Comparison comparison = compare(report_of({lenet(2e-3)}), report_of({lenet(2.6e-3)}), settings);
  EXPECT_EQ(only(comparison).verdict, Verdict::slower);
  EXPECT_GT(*only(comparison).ratio, 1);
  settings.metric = "step_tme";
  EXPECT_THROW(compare(report_of({lenet(2e-3)}), report_of({lenet(2e-3)}), settings), ConfigError);
  settings = {};
  for (const char* filter : {"resnet", "lenet5,resnet", ","}) {
    settings.filter = filter;
    EXPECT_THROW(compare(report_of({lenet(2e-3)}), report_of({lenet(2e-3)}), settings), ConfigError)
        << filter;
  }
  settings.filter = "lenet5,";
  EXPECT_EQ(compare(report_of({lenet(2e-3)}), report_of({lenet(2e-3)}), settings).cells.size(), 1U);
}

}  // namespace
}  // namespace assay

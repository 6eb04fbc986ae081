// The order that disturbed rounds give.
#include <gmock/gmock.h>

#include "harness/report/analysis.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/metrics.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

constexpr std::int64_t window_ns = 300'000'000;

// Three cells, each 2 or 4 times as slow as the one before, in rounds that were all disturbed: in each fork the threads
// waited for that part of the time.
Report busy_report(int rounds, double waited_part) {
  Report report = test::sample_report(rounds);
  report.cells = {test::sample_cell("jax", "jit", 0.016, rounds),
                  test::sample_cell("onednn", "graph", 0.002, rounds),
                  test::sample_cell("mxnet", "hybridize", 0.008, rounds)};
  for (CellReport& cell : report.cells) {
    for (Fork& fork : cell.forks) {
      fork.flags = {quality_flag::disturbed};
      double seconds = 0;
      for (const Block* block : timed_blocks(fork)) seconds += block_seconds(*block);
      fork.disturbance = {.processors = 2,
                          .window_ns = window_ns,
                          .waited_ns = static_cast<std::int64_t>(1e9 * waited_part * seconds)};
    }
    cell.flags = {quality_flag::disturbed};
  }
  return report;
}

std::vector<std::string> names(const Analysis& all, const Provisional& order) {
  std::vector<std::string> names;
  for (const ProvisionalRow& row : order.rows) names.push_back(all.report_cell(row.cell).axes.backend);
  return names;
}

TEST(Provisional, OrdersDisturbedRoundsWithARangeAndWithoutARank) {
  const Report report = busy_report(8, 0.3);
  const Analysis all = analyze(report);
  const AnalyzedGroup& group = all.groups.at(0);
  ASSERT_TRUE(group.provisional);
  EXPECT_EQ(group.provisional->rounds, 8);
  EXPECT_EQ(group.provisional->disturbed, 8);
  EXPECT_THAT(names(all, *group.provisional), ::testing::ElementsAre("onednn", "mxnet", "jax"));
  const PairedRatio& last = group.provisional->rows[2].to_first;
  EXPECT_NEAR(last.value, 8, 1e-9);
  EXPECT_EQ(last.n, 8);
  EXPECT_FALSE(last.lower) << "disturbed rounds have no interval";
  EXPECT_THAT(group.in_rank, ::testing::ElementsAre(1, 2, 0));
  EXPECT_FALSE(group.baselines.at(0)) << "nothing else takes it for a ranking";
  for (const AnalyzedCell& cell : all.cells) {
    EXPECT_FALSE(cell.rank || cell.ratio || cell.to_fastest || cell.time || cell.taxed);
    EXPECT_FALSE(cell.clean);
  }
  EXPECT_FALSE(all.families.at(0).leader);
}

TEST(Provisional, SaysWhichCellsStayApartByMoreThanWaitingExplains) {
  const Report little = busy_report(8, 0.4), much = busy_report(8, 0.6), all_of_it = busy_report(8, 2);
  const auto apart = [](const Report& report) {
    std::vector<std::optional<std::size_t>> from;
    for (const ProvisionalRow& row : analyze(report).groups.at(0).provisional->rows)
      from.push_back(row.apart_from);
    return from;
  };
  using Places = std::vector<std::optional<std::size_t>>;
  EXPECT_EQ(apart(little), (Places{std::nullopt, 1, 2}));
  EXPECT_EQ(apart(much), (Places{std::nullopt, 1, 1})) << "jax is apart from onednn, and not from mxnet";
  EXPECT_EQ(apart(all_of_it), (Places{std::nullopt, std::nullopt, std::nullopt}));
}

TEST(Provisional, NeedsSixRoundsAndKnownWaitsToSayThatCellsAreApart) {
  Report report = busy_report(5, 0);
  for (const ProvisionalRow& row : analyze(report).groups.at(0).provisional->rows)
    EXPECT_FALSE(row.apart_from);
  report = busy_report(6, 0);
  EXPECT_EQ(analyze(report).groups.at(0).provisional->rows[1].apart_from, 1U);
  report.cells[2].forks[3].disturbance->waited_ns.reset();
  EXPECT_FALSE(analyze(report).groups.at(0).provisional->rows[1].apart_from);
  EXPECT_EQ(analyze(report).groups.at(0).provisional->rows[2].apart_from, 2U) << "the faster one needs none";
  report.cells[0].forks[3].disturbance->steal_ns = 10 * window_ns;
  EXPECT_FALSE(analyze(report).groups.at(0).provisional->rows[2].apart_from) << "the hypervisor explains it";
}

TEST(Provisional, IsLeftOutWhereRoundsCountOrNothingWasDisturbed) {
  EXPECT_FALSE(analyze(test::sample_report(6)).groups.at(0).provisional);
  EXPECT_FALSE(analyze(test::sample_report(1)).groups.at(0).provisional);
  Report report = busy_report(6, 0.1);
  for (CellReport& cell : report.cells) {
    cell.flags.clear();
    for (int round : {2, 3}) cell.forks[static_cast<std::size_t>(round)].flags.clear();
  }
  const Analysis ranked = analyze(report);
  EXPECT_EQ(ranked.groups.at(0).rounds, 2);
  EXPECT_FALSE(ranked.groups.at(0).provisional);
  for (CellReport& cell : report.cells) cell.forks[2].flags = {quality_flag::disturbed};
  const Analysis by_one = analyze(report);
  ASSERT_TRUE(by_one.groups.at(0).provisional) << "one round is no ranking";
  EXPECT_EQ(by_one.groups.at(0).provisional->disturbed, 5);
}

TEST(Provisional, LeavesOutCellsWithOtherFaults) {
  Report report = busy_report(6, 0.1);
  report.cells[2].equivalence.passed = false;
  report.cells[2].status = Status::wrong_result;
  const Analysis all = analyze(report);
  EXPECT_THAT(names(all, *all.groups.at(0).provisional), ::testing::ElementsAre("onednn", "jax"));
  report.cells[0].equivalence = {.checked = false, .reason = "not requested"};
  EXPECT_FALSE(analyze(report).groups.at(0).provisional) << "one cell has no order";
}

void give_fewer_threads(CellReport& cell, std::size_t from_round) {
  for (std::size_t round = from_round; round < cell.forks.size(); ++round) {
    cell.forks[round].flags.emplace_back(quality_flag::fewer_threads);
    cell.forks[round].settings["fewer_threads"] = "1";
  }
}

TEST(Provisional, TakesForksWithFewerThreadsIfAllCellsHaveThem) {
  Report report = busy_report(8, 0.1);
  // With two threads jax and mxnet change places.
  for (std::size_t round = 0; round < 2; ++round)
    for (Block& block : report.cells[2].forks[round].blocks)
      block.end_ns = block.begin_ns + 100 * (block.end_ns - block.begin_ns);
  give_fewer_threads(report.cells[1], 2);
  give_fewer_threads(report.cells[2], 2);
  const Analysis two = analyze(report);
  EXPECT_FALSE(two.groups.at(0).provisional->threads) << "jax has none";
  EXPECT_EQ(two.groups.at(0).provisional->rounds, 8);
  EXPECT_THAT(names(two, *two.groups.at(0).provisional), ::testing::ElementsAre("onednn", "jax", "mxnet"));
  give_fewer_threads(report.cells[0], 2);
  const Analysis one = analyze(report);
  const Provisional& order = one.groups.at(0).provisional.value();
  EXPECT_EQ(order.threads, 1);
  EXPECT_EQ(order.rounds, 6);
  EXPECT_THAT(names(one, order), ::testing::ElementsAre("onednn", "mxnet", "jax"));
  EXPECT_EQ(order.rows[1].to_first.n, 6);
}

TEST(ForkTime, DoesNotCountAForkWithFewerThreads) {
  Fork fork = test::sample_cell("mxnet", "hybridize", 0.01, 1).forks[0];
  EXPECT_TRUE(counts(fork));
  fork.flags = {quality_flag::fewer_threads};
  EXPECT_FALSE(counts(fork));
  CellReport cell = test::sample_cell("mxnet", "hybridize", 0.01, 3);
  cell.forks[1].flags = {quality_flag::fewer_threads};
  EXPECT_EQ(counted_forks(cell).size(), 2U);
  cell.forks[0].flags = cell.forks[2].flags = {quality_flag::disturbed};
  EXPECT_EQ(counted_forks(cell).size(), 2U) << "two numbers of threads are not mixed";
  for (Fork& one : cell.forks) one.flags = {quality_flag::fewer_threads};
  EXPECT_EQ(counted_forks(cell).size(), 3U);
}

}  // namespace
}  // namespace assay

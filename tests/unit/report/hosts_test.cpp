// Ranks on several machines, as a report has them.
#include "harness/report/hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/report/invariants.hpp"
#include "harness/report/report_json.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RankRecord rank_on(const std::string& host, int number, double step_seconds, double taken) {
  Block block{.kind = BlockKind::timed, .steps = 10, .begin_ns = 0};
  block.end_ns = static_cast<std::int64_t>(1e10 * step_seconds);
  RankRecord record{.rank = number, .blocks = {block}, .host_peak_rss = 100};
  record.disturbance = Disturbance{.processors = 1, .window_ns = 1'000'000'000};
  record.disturbance->others_ns = static_cast<std::int64_t>(1e9 * taken) + 10'000'000;
  record.host = host;
  return record;
}

CellReport cell_on_two_hosts() {
  CellReport cell;
  cell.forks.emplace_back();
  cell.forks[0].status = Status::ok;
  cell.forks[0].ranks = {rank_on("b", 0, 0.1, 0), rank_on("b", 1, 0.3, 0.02), rank_on("a", 2, 0.2, 0)};
  return cell;
}

TEST(Hosts, HaveTheSlowestOfTheirRanksAndAllOfTheirMemory) {
  const std::vector<HostShare> shares = host_shares(cell_on_two_hosts());
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].name, "b");
  EXPECT_THAT(shares[0].ranks, ElementsAre(0, 1));
  EXPECT_NEAR(shares[0].step_time, 0.3, 1e-9);
  EXPECT_NEAR(shares[0].taken, 0.02, 1e-9);
  EXPECT_EQ(shares[0].memory, 200);
  EXPECT_EQ(shares[1].name, "a");
  EXPECT_THAT(shares[1].ranks, ElementsAre(2));
}

TEST(Hosts, HaveTheStepOfTheirSlowestRankAlone) {
  CellReport cell = cell_on_two_hosts();
  std::vector<RankRecord>& ranks = cell.forks[0].ranks;
  ranks[0].exchange = {.local_seconds = {1, 2, 9}};
  ranks[1].exchange = {.local_seconds = {3, 4, 5}};
  const std::vector<HostShare> shares = host_shares(cell);
  EXPECT_EQ(shares[0].local_step_time, 4);
  EXPECT_EQ(shares[1].local_step_time, std::nullopt);
}

TEST(Hosts, AreNoneIfAllRanksWereOnOneMachine) {
  CellReport cell = cell_on_two_hosts();
  for (RankRecord& rank : cell.forks[0].ranks) rank.host.clear();
  EXPECT_THAT(host_shares(cell), IsEmpty());
  EXPECT_THAT(hosts_of(cell), IsEmpty());
}

TEST(Hosts, AreAddedOnceByName) {
  std::vector<HostRecord> all{{.name = "b"}};
  add_hosts(all, {{.name = "c"}, {.name = "b"}, {.name = "a"}});
  std::vector<std::string> names;
  for (const HostRecord& host : all) names.push_back(host.name);
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
}

TEST(Hosts, AreDescribedOnceForEveryRank) {
  Report report = test::sample_report();
  report.cells[0].forks[0].ranks = {rank_on("a", 0, 0.1, 0), rank_on("b", 1, 0.1, 0)};
  report.hosts = {{.name = "a"}, {.name = "a"}};
  const std::vector<std::string> faults = invariant_violations(report);
  EXPECT_THAT(faults, Contains(HasSubstr("describes the host a twice")));
  EXPECT_THAT(faults, Contains(HasSubstr("ran on b, which is not one of its hosts")));
}

TEST(Hosts, SurviveTheFile) {
  Report report = test::sample_report();
  report.hosts = {{.name = "a"}};
  const Report again = report_from(to_json(report), "report");
  ASSERT_EQ(again.hosts.size(), 1u);
  EXPECT_EQ(again.hosts[0].name, "a");
  EXPECT_EQ(again.schema_minor, 14);
}

}  // namespace
}  // namespace assay

#include "harness/report/time_spent.hpp"

#include <gtest/gtest.h>

#include "harness/report/axes.hpp"

namespace assay {
namespace {

Block block_of(BlockKind kind, double seconds) {
  Block block;
  block.kind = kind;
  block.steps = 1;
  block.end_ns = static_cast<std::int64_t>(1e9 * seconds);
  return block;
}

Report report_with_times() {
  Fork fork;
  fork.status = Status::ok;
  fork.blocks = {block_of(BlockKind::warm_up, 1), block_of(BlockKind::timed, 2),
                 block_of(BlockKind::timed, 2)};
  fork.evaluations = {{.seconds = 0.5}};
  fork.spent = TimeSpent{.folder = 0.1,
                         .start = 3,
                         .compile = 4,
                         .run = 6,
                         .check = 0.3,
                         .exchange = 0.75,
                         .device = 0.125,
                         .judge = 0.2,
                         .quit = 0.25};
  CellReport cell;
  cell.forks = {fork};
  cell.check_spent = TimeSpent{.start = 1, .compile = 1, .check = 1};
  Report report;
  report.cells = {cell};
  return report;
}

TEST(TimeSpentOnARun, IsToldByWhatItWasSpentOnTheMostFirst) {
  const auto shares = time_spent(report_with_times());
  std::map<std::string, double> seconds;
  for (const TimeShare& share : shares) seconds[share.name] = share.seconds;
  EXPECT_DOUBLE_EQ(seconds.at("timed blocks"), 4);
  EXPECT_DOUBLE_EQ(seconds.at("warm-up"), 1);
  EXPECT_DOUBLE_EQ(seconds.at("evaluations"), 0.5);
  EXPECT_DOUBLE_EQ(seconds.at("staging data"), 0.5) << "what is left of the answer to run";
  EXPECT_DOUBLE_EQ(seconds.at("compiling"), 4);
  EXPECT_DOUBLE_EQ(seconds.at("starting and ending workers"), 3.25);
  EXPECT_DOUBLE_EQ(seconds.at("checks before timing"), 3);
  EXPECT_DOUBLE_EQ(seconds.at("checks after timing"), 0.5);
  EXPECT_DOUBLE_EQ(seconds.at("exchanges of gradients"), 0.75);
  EXPECT_DOUBLE_EQ(seconds.at("steps on the device alone"), 0.125);
  EXPECT_DOUBLE_EQ(total(TimeSpent{.run = 1, .exchange = 2, .device = 4}), 7);
  EXPECT_DOUBLE_EQ(seconds.at("writing cell folders"), 0.1);
  for (std::size_t i = 1; i < shares.size(); ++i) EXPECT_GE(shares[i - 1].seconds, shares[i].seconds);
}

TEST(TimeSpentOnARun, IsNotToldOfAReportThatDoesNotHaveIt) {
  Report report = report_with_times();
  report.cells[0].forks[0].spent.reset();
  EXPECT_TRUE(time_spent(report).empty());
}

TEST(ShortIds, HaveTheAxesThatDiffer) {
  Axes eager;
  eager.workload = "mlp";
  eager.backend = "torch";
  eager.mode = "eager";
  eager.batch = 32;
  Axes compiled = eager, large = eager;
  compiled.mode = "compile";
  large.batch = 256;
  const Axes* modes[] = {&eager, &compiled};
  EXPECT_EQ(short_ids(modes), (std::vector<std::string>{"mlp torch eager", "mlp torch compile"}));
  const Axes* batches[] = {&eager, &large};
  EXPECT_EQ(short_ids(batches), (std::vector<std::string>{"mlp torch eager b32", "mlp torch eager b256"}));
}

}  // namespace
}  // namespace assay

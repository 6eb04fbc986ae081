#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/report/analysis.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

// The first cell of the sample with other ranks and another batch, and steps that take `factor` times as long.
CellReport cell_of(const CellReport& cell, const char* ranks, std::int64_t batches, double factor) {
  CellReport other = cell;
  set_axis(*find_axis("ranks"), other.axes, ranks);
  other.axes.batch *= batches;
  other.id = cell_id(other.axes);
  for (Fork& fork : other.forks)
    for (Block& block : fork.blocks)
      block.end_ns = block.begin_ns +
                     static_cast<std::int64_t>(factor * static_cast<double>(block.end_ns - block.begin_ns));
  return other;
}

TEST(Scaling, IsTheRateOverThatOfOneRankTimesTheRanks) {
  Report report = test::sample_report(6);
  const CellReport one = report.cells[0];
  report.cells = {one, cell_of(one, "2", 1, 0.625), cell_of(one, "2", 2, 1.25)};
  const Analysis all = analyze(report);
  ASSERT_EQ(all.scaling.size(), 2u);
  EXPECT_EQ(all.scaling[0].cell, 1u);
  EXPECT_EQ(all.scaling[0].base, 0u);
  EXPECT_EQ(all.scaling[0].kind, ScalingKind::strong);
  EXPECT_NEAR(all.scaling[0].efficiency.value, 0.8, 1e-6);
  EXPECT_EQ(all.scaling[0].efficiency.n, 6);
  EXPECT_EQ(all.scaling[1].cell, 2u);
  EXPECT_EQ(all.scaling[1].kind, ScalingKind::weak);
  EXPECT_NEAR(all.scaling[1].efficiency.value, 0.8, 1e-6);
}

TEST(Scaling, NeedsACellOfOneRank) {
  Report report = test::sample_report(6);
  report.cells = {cell_of(report.cells[0], "2", 1, 1)};
  EXPECT_THAT(analyze(report).scaling, ::testing::IsEmpty());
}

}  // namespace
}  // namespace assay

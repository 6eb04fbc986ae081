#include "harness/report/metric_table.hpp"

#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>

#include <gtest/gtest.h>

#include "harness/report/axes.hpp"

namespace assay {
namespace {

TEST(MetricTable, names_each_metric_once_with_a_heading) {
  std::set<std::string_view> names;
  for (const MetricRow& row : metric_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.heading.empty()) << row.name;
    EXPECT_FALSE(row.about.empty()) << row.name;
    EXPECT_EQ(is_planned(row.name), row.section == Section::memory_plans) << row.name;
  }
}

TEST(Axes, CountThreadsWithoutOverflow) {
  Axes axes;
  axes.loader = LoaderKind::harness;
  axes.threads = axes.loader_workers = std::numeric_limits<int>::max();
  axes.variant["loader-threads"] = "2147483647";
  EXPECT_EQ(axes.all_threads(), std::numeric_limits<int>::max());
}

TEST(MetricTable, says_which_way_is_better) {
  EXPECT_TRUE(higher_is_better("samples_per_second"));
  EXPECT_TRUE(higher_is_better("test_accuracy"));
  EXPECT_FALSE(higher_is_better("step_time"));
  EXPECT_FALSE(higher_is_better("gpu_power"));
  EXPECT_THROW(described_metric("no_metric"), std::logic_error);
}

}  // namespace
}  // namespace assay

#include "harness/machine/core_probe.hpp"

#include <gtest/gtest.h>

#include "harness/machine/cores.hpp"

namespace assay {
namespace {

TEST(CoreProbe, NeedsTwoProcessorsThatExist) {
  EXPECT_FALSE(slowdown_together({}));
  EXPECT_FALSE(slowdown_together({usable_cores().front()}));
  EXPECT_FALSE(slowdown_together({usable_cores().front(), -1}));
}

// How slow depends on the machine and on its other work, but it is a time over a time.
TEST(CoreProbe, MeasuresTheProcessorsOfThisMachine) {
  if (usable_cores().size() < 2) GTEST_SKIP() << "one processor";
  const auto slowdown = slowdown_together({usable_cores()[0], usable_cores()[1]});
  ASSERT_TRUE(slowdown);
  EXPECT_GT(*slowdown, 0);
}

TEST(Cores, OnePerCoreKeepsTheOrder) {
  const std::vector<int> firsts = one_per_core(usable_cores());
  ASSERT_FALSE(firsts.empty());
  EXPECT_EQ(firsts.front(), usable_cores().front());
  EXPECT_EQ(one_per_core(firsts), firsts);
}

}  // namespace
}  // namespace assay

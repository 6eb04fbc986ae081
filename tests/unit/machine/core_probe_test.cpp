#include "harness/machine/core_probe.hpp"

#include <gtest/gtest.h>

#include "harness/machine/cores.hpp"

namespace assay {
namespace {

TEST(CoreProbe, NeedsTwoProcessorsThatExist) {
  EXPECT_FALSE(read_cores({}));
  EXPECT_FALSE(read_cores({usable_cores().front()}));
  EXPECT_FALSE(read_cores({usable_cores().front(), -1}));
}

// The values depend on the machine; with much other work there may be none.
TEST(CoreProbe, MeasuresTheProcessorsOfThisMachine) {
  if (usable_cores().size() < 2) GTEST_SKIP() << "one processor";
  const auto reading = read_cores({usable_cores()[0], usable_cores()[1]});
  if (!reading) GTEST_SKIP() << "the processors are too busy";
  EXPECT_GT(reading->slowdown, 0);
  EXPECT_GT(reading->hop_ns, 0);
}

TEST(Cores, OnePerCoreKeepsTheOrder) {
  const std::vector<int> firsts = one_per_core(usable_cores());
  ASSERT_FALSE(firsts.empty());
  EXPECT_EQ(firsts.front(), usable_cores().front());
  EXPECT_EQ(one_per_core(firsts), firsts);
}

}  // namespace
}  // namespace assay

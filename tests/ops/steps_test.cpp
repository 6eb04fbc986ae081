// Two runs of one program on the kernel library that this program is linked with.
#include <gtest/gtest.h>

#include "tests/ops/training_run.hpp"

namespace assay::ops {
namespace {

class Steps : public NeedsDevice<::testing::TestWithParam<std::string>> {};

TEST_P(Steps, end_in_the_same_bits_twice) {
  for (const char* workload : {"mlp", "lenet5"}) {
    const Program program = find_workload(workload).build(16);
    TrainingRun first(program, GetParam()), second(program, GetParam());
    first.run(20);
    second.run(20);
    const std::vector<HostTensor> a = first.executable().state(), b = second.executable().state();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t t = 0; t < a.size(); ++t)
      EXPECT_EQ(a[t].bytes, b[t].bytes) << workload << " " << a[t].name;
    EXPECT_EQ(first.executable().loss(), second.executable().loss());
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Steps, ::testing::ValuesIn(under_test::all_modes()),
                         [](const auto& mode) { return mode.param; });

}  // namespace
}  // namespace assay::ops

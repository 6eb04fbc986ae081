// A program on a device that finds no memory at the nth allocation, for each n.
#include "tests/nightly.hpp"
#include "tests/stand_in/program_case.hpp"
#include "tests/stand_in/scope.hpp"

namespace assay::cuda {
namespace {

using stand_in::Scope;

class OutOfMemoryAt : public ::testing::TestWithParam<ProgramCase> {};

TEST_P(OutOfMemoryAt, EachAllocationEndsCleanlyOrGoesOnRightly) {
  const Program program = small_program(GetParam().workload);
  const CompileOptions options = options_of(GetParam());
  std::int64_t all = 0;
  {
    const Scope scope;
    trained(program, options);
    all = stand_in::allocations();
  }
  ASSERT_GT(all, 10);
  std::int64_t ended = 0;
  for (std::int64_t n = 0; n < all; ++n) {
    SCOPED_TRACE(n);
    const Scope scope({.fail_at = n});
    try {
      trained(program, options);
      EXPECT_GT(stand_in::allocations(), n);
    } catch (const OutOfMemory&) {
      ++ended;
    }
  }
  // Only a search for engines does without.
  if (GetParam().search == Search::none) {
    EXPECT_EQ(ended, all);
  } else {
    EXPECT_GT(ended, 0);
    EXPECT_LT(ended, all);
  }
}

std::vector<ProgramCase> programs() {
  std::vector<ProgramCase> all{{"residual", "graph", PrecisionKind::fp32},
                               {"lstm", "graph", PrecisionKind::fp32},
                               {"mlp", "eager", PrecisionKind::fp32},
                               {"mlp", "primitives", PrecisionKind::fp32}};
  if (nightly()) all.push_back({"residual", "graph", PrecisionKind::bf16, Search::measured});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Programs, OutOfMemoryAt, ::testing::ValuesIn(programs()),
                         [](const auto& test) { return ::testing::PrintToString(test.param); });

}  // namespace
}  // namespace assay::cuda

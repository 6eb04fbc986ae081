#include "harness/conductor/run/first_losses.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CellReport row_with(double loss, std::int64_t steps = 10, int round = 0) {
  CellReport row;
  Fork fork;
  fork.round = round;
  fork.status = Status::ok;
  Block first;
  first.steps = steps;
  first.loss = loss;
  fork.blocks = {first, Block{}};
  row.forks = {fork};
  return row;
}

std::vector<std::vector<std::string>> warned(std::vector<CellReport> rows, int round = 0) {
  std::vector<CellReport*> all;
  for (CellReport& row : rows) all.push_back(&row);
  compare_first_losses(all, round);
  std::vector<std::vector<std::string>> warnings;
  for (const CellReport& row : rows) warnings.push_back(row.forks[0].warnings);
  return warnings;
}

TEST(FirstLosses, WarnOfTheBackendThatTrainsOnSomethingElse) {
  const auto warnings = warned({row_with(2.21), row_with(2.22), row_with(2.5), row_with(2.215)});
  EXPECT_THAT(warnings[2], ElementsAre(HasSubstr("after its first 10 steps, 2.5, is 13 % from the median")));
  for (const int honest : {0, 1, 3}) EXPECT_THAT(warnings[static_cast<std::size_t>(honest)], IsEmpty());
}

TEST(FirstLosses, AreComparedOfThreeForksOfOneRoundAfterEquallyManySteps) {
  EXPECT_THAT(warned({row_with(1), row_with(2)}), ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_THAT(warned({row_with(1), row_with(1), row_with(2, 20)}),
              ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
  EXPECT_THAT(warned({row_with(1), row_with(1), row_with(2, 10, 1)}),
              ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
}

TEST(FirstLosses, AreNotComparedAfterManySteps) {
  EXPECT_THAT(warned({row_with(0.25, 1500), row_with(0.27, 1500), row_with(0.27, 1500)}),
              ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
}

TEST(FirstLosses, AreJudgedAnewWithEachFork) {
  CellReport a = row_with(1), b = row_with(1.2), c = row_with(1.2), d = row_with(1.19);
  compare_first_losses(std::vector<CellReport*>{&a, &b, &c}, 0);
  compare_first_losses(std::vector<CellReport*>{&a, &b, &c, &d}, 0);
  EXPECT_EQ(a.forks[0].warnings.size(), 1U);
  EXPECT_THAT(d.forks[0].warnings, IsEmpty());
}

}  // namespace
}  // namespace assay

#include "harness/conductor/fork/oracle_need.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/config/matrix.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Registries registries() {
  BackendDescription here;
  here.name = "here";
  here.kind = BackendKind::engine;
  here.devices = {DeviceKind::cpu};
  here.modes = {"graph"};
  here.tasks = {Task::infer, Task::train};
  here.precisions = {PrecisionKind::fp32};
  here.layouts = {"native"};
  here.loaders = {LoaderKind::resident};
  Registries all;
  all.backends.backends = {here};
  return all;
}

std::vector<Cell> cells(const nlohmann::json& config) {
  static const Registries here = registries();
  nlohmann::json whole{{"backend", "here"}, {"mode", "graph"}, {"threads", 1}};
  whole.update(config);
  return expand(config_from_json(whole, "a test"), here).cells;
}

OracleNeed need_of(const nlohmann::json& config) {
  const Cell cell = cells(config).at(0);
  return oracle_need(cell);
}

constexpr double gigabyte = 1e9;

TEST(OracleNeed, FollowsFromTheProgram) {
  const double bert = need_of({{"workload", "bert-base"}, {"batch", 8}}).bytes;
  EXPECT_GT(bert, 20 * gigabyte) << "docs/status.md";
  EXPECT_LT(bert, 40 * gigabyte);
  const double inference = need_of({{"workload", "bert-base"}, {"batch", 8}, {"task", "infer"}}).bytes;
  EXPECT_LT(inference, bert / 4) << "no moments, and no state to compare";
  EXPECT_LT(need_of({{"workload", "mlp"}}).bytes, gigabyte);
  EXPECT_LT(need_of({{"workload", "op/relu"}}).bytes, gigabyte);
}

TEST(OracleNeed, GrowsWithTheDistinctSamples) {
  const OracleNeed few = need_of({{"workload", "resnet56"}, {"batch", 32}, {"distinct", 2}});
  const OracleNeed many = need_of({{"workload", "resnet56"}, {"batch", 32}, {"distinct", 16}});
  EXPECT_GT(many.bytes, few.bytes + 2e8);
  EXPECT_GT(many.flops, 6 * few.flops);
  EXPECT_DOUBLE_EQ(few.seconds(2), few.seconds(1) / 2);
}

TEST(OracleNeed, IsComparedWithTheMemoryThatIsAvailable) {
  const OracleNeed need{.bytes = 24 * gigabyte};
  EXPECT_EQ(why_too_large(need, std::nullopt), "");
  EXPECT_EQ(why_too_large(need, std::int64_t{25'000'000'000}), "");
  EXPECT_EQ(why_too_large(need, std::int64_t{13'000'000'000}),
            "the oracle needs about 24 GB of memory, and 13 GB are available");
}

TEST(DoubtsAboutExams, NameEachGroupOnceWithTheRemedy) {
  std::vector<Cell> two = cells({{"workload", {"bert-base", "mlp"}}});
  two.push_back(two.front());
  EXPECT_THAT(doubts_about_exams(two, 1e9, std::int64_t{8'000'000'000}),
              ElementsAre(AllOf(HasSubstr("bert-base"), HasSubstr("8 GB are available"),
                                HasSubstr("--check false"))));
  EXPECT_THAT(doubts_about_exams(two, 1e9, std::int64_t{1} << 50), IsEmpty());
  EXPECT_THAT(doubts_about_exams(two, 1, std::nullopt),
              ElementsAre(AllOf(HasSubstr("bert-base"), HasSubstr("--time-limit"))));
  for (Cell& cell : two) cell.check = false;
  EXPECT_THAT(doubts_about_exams(two, 1, std::int64_t{1}), IsEmpty());
}

}  // namespace
}  // namespace assay

#include "harness/conductor/run/cell_report.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace assay {
namespace {

using ::testing::HasSubstr;

CellReport row_with(nlohmann::json libraries) {
  CellReport row;
  row.libraries = std::move(libraries);
  row.forks.emplace_back();
  return row;
}

protocol::Hello hello() {
  protocol::Hello made;
  made.libraries = {{"oneDNN", "3.2.0", ""}};
  return made;
}

TEST(OtherLibrary, IsTheFirstThatHasAnotherVersion) {
  EXPECT_EQ(other_library(row_with({{{"name", "oneDNN"}, {"version", "3.2.0"}}}), hello()), "");
  EXPECT_THAT(other_library(row_with({{{"name", "oneDNN"}, {"version", "3.1.0"}}}), hello()),
              HasSubstr("oneDNN 3.2.0 is loaded, but the earlier forks used 3.1.0"));
}

TEST(OtherLibrary, IsNoneOfWhatAReportNamesInAnotherForm) {
  const nlohmann::json strange = {1, "oneDNN", nullptr, {{"name", 5}}, {{"version", {"3.1.0"}}}};
  EXPECT_EQ(other_library(row_with(strange), hello()), "");
  EXPECT_THAT(other_library(row_with({{{"name", "oneDNN"}, {"version", 3}}}), hello()),
              HasSubstr("oneDNN 3.2.0"));
}

TEST(TakeHello, KeepsTheLibrariesOfAForkOnlyIfTheyDiffer) {
  CellReport row;
  protocol::Hello made = hello();
  made.libraries.push_back({"libgomp", "build-id 1", "/usr/lib/libgomp.so.1"});
  take_hello(row, made);
  row.forks.emplace_back();
  std::ranges::reverse(made.libraries);  // another order of the memory map
  take_hello(row, made);
  EXPECT_TRUE(row.forks[0].libraries.is_null());
  made.libraries[0].version = "build-id 2";
  take_hello(row, made);
  EXPECT_EQ(row.forks[0].libraries.size(), 2U);
  EXPECT_NE(row.forks[0].libraries, row.libraries);
}

}  // namespace
}  // namespace assay

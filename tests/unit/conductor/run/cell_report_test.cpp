#include "harness/conductor/run/cell_report.hpp"

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

}  // namespace
}  // namespace assay

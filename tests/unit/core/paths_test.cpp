#include "harness/core/paths.hpp"

#include <unistd.h>

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace {

class PathsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"ASSAY_CACHE", "XDG_CACHE_HOME", "HOME", "TMPDIR"}) {
      if (const auto value = environment_variable(name)) before_.emplace_back(name, *value);
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (const char* name : {"ASSAY_CACHE", "XDG_CACHE_HOME", "HOME", "TMPDIR"}) ::unsetenv(name);
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::vector<std::pair<std::string, std::string>> before_;
};

TEST_F(PathsTest, TheCacheIsTheFirstFolderThatTheEnvironmentNames) {
  ::setenv("TMPDIR", "/tmp", 1);
  EXPECT_EQ(cache_folder(), "/tmp/assay-" + std::to_string(::getuid()));
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(cache_folder(), "/home/me/.cache/assay");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_folder(), "/x/assay");
  ::setenv("ASSAY_CACHE", "/a", 1);
  EXPECT_EQ(cache_folder(), "/a");
}

TEST_F(PathsTest, AnEmptyVariableNamesNoCache) {
  ::setenv("HOME", "/home/me", 1);
  ::setenv("XDG_CACHE_HOME", "", 1);
  ::setenv("ASSAY_CACHE", "", 1);
  EXPECT_EQ(cache_folder(), "/home/me/.cache/assay");
}

TEST(Environment, TellsAnEmptyVariableFromOneThatIsNotSet) {
  ::setenv("ASSAY_TEST_VARIABLE", "", 1);
  EXPECT_EQ(environment_variable("ASSAY_TEST_VARIABLE"), "");
  ::unsetenv("ASSAY_TEST_VARIABLE");
  EXPECT_EQ(environment_variable("ASSAY_TEST_VARIABLE"), std::nullopt);
  EXPECT_EQ(environment_text("ASSAY_TEST_VARIABLE"), "");
}

TEST(Environment, SplitsAListAtItsColons) {
  ::setenv("ASSAY_TEST_VARIABLE", ":/one::/two:", 1);
  EXPECT_THAT(environment_list("ASSAY_TEST_VARIABLE"), testing::ElementsAre("/one", "/two"));
  ::unsetenv("ASSAY_TEST_VARIABLE");
  EXPECT_THAT(environment_list("ASSAY_TEST_VARIABLE"), testing::IsEmpty());
}

}  // namespace
}  // namespace assay

#include "harness/core/paths.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/core/io/scratch_root.hpp"
#include "tests/temporary_folder.hpp"

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
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  ::setenv("HOME", (path + "/home").c_str(), 1);
  EXPECT_EQ(cache_folder(), path + "/home/.cache/assay");
  ::setenv("XDG_CACHE_HOME", (path + "/x").c_str(), 1);
  EXPECT_EQ(cache_folder(), path + "/x/assay");
  ::setenv("ASSAY_CACHE", (path + "/a").c_str(), 1);
  EXPECT_EQ(cache_folder(), path + "/a");
  EXPECT_EQ(why_nothing_is_cached(), "");
  EXPECT_EQ(std::filesystem::status(cache_folder()).permissions(), std::filesystem::perms::owner_all);
}

TEST_F(PathsTest, AnEmptyVariableNamesNoCache) {
  const TemporaryFolder folder;
  ::setenv("HOME", folder.path().c_str(), 1);
  ::setenv("XDG_CACHE_HOME", "", 1);
  ::setenv("ASSAY_CACHE", "", 1);
  EXPECT_EQ(cache_folder(), folder.path() / ".cache/assay");
}

TEST_F(PathsTest, WithoutAHomeTheCacheIsThisProcessesAlone) {
  const TemporaryFolder folder;
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  const std::filesystem::path cache = cache_folder();
  EXPECT_NE(cache, "/tmp/assay-" + std::to_string(::getuid()));
  EXPECT_EQ(std::filesystem::status(cache).permissions(), std::filesystem::perms::owner_all);
  EXPECT_EQ(cache_folder(), cache);
  EXPECT_THAT(why_nothing_is_cached(), testing::HasSubstr("set ASSAY_CACHE"));
}

TEST_F(PathsTest, RefusesNamesThatAreNotUtf8) {
  const TemporaryFolder folder;
  const std::string bad = folder.path().string() + "/\xff";
  ::setenv("ASSAY_CACHE", bad.c_str(), 1);
  EXPECT_THAT(why_nothing_is_cached(), testing::HasSubstr("has a name that is not UTF-8: set ASSAY_CACHE"));
  EXPECT_FALSE(std::filesystem::exists(bad));
  std::filesystem::create_directory(bad);
  ::setenv("TMPDIR", bad.c_str(), 1);
  EXPECT_THROW(temporary_folder(), IoError);
}

// The death test starts this program again, as the cache of a process is made once; that process gets our folder.
TEST_F(PathsTest, ACacheOfAProcessThatWasKilledIsSwept) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr const char* variable = "ASSAY_TEST_FOLDER";
  std::optional<TemporaryFolder> own;
  if (!environment_variable(variable)) ::setenv(variable, own.emplace().path().c_str(), 1);
  const std::filesystem::path folder = environment_text(variable);
  ::setenv("TMPDIR", folder.c_str(), 1);
  const auto die_with_a_cache = [] {
    std::filesystem::create_directory(cache_folder() / "datasets");
    std::raise(SIGKILL);
  };
  EXPECT_EXIT(die_with_a_cache(), testing::KilledBySignal(SIGKILL), "");
  ::unsetenv(variable);
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  EXPECT_EQ(sweep_stale_scratch(folder), 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(PathsTest, ACacheThatOthersMayHaveMadeIsNotUsed) {
  const TemporaryFolder folder;
  const std::filesystem::path mine = folder.path() / "mine", link = folder.path() / "link";
  std::filesystem::create_directory(mine);
  std::filesystem::create_symlink(mine, link);
  ::setenv("ASSAY_CACHE", link.c_str(), 1);
  EXPECT_NE(cache_folder(), link);
  EXPECT_THAT(why_nothing_is_cached(), testing::HasSubstr("is a symbolic link"));
  std::filesystem::permissions(mine, std::filesystem::perms::all);
  ::setenv("ASSAY_CACHE", mine.c_str(), 1);
  EXPECT_NE(cache_folder(), mine);
  EXPECT_THAT(why_nothing_is_cached(), testing::HasSubstr("written by everybody"));
  if (::geteuid() != 0) return;  // only root can give a folder away
  std::filesystem::permissions(mine, std::filesystem::perms::owner_all);
  ASSERT_EQ(::chown(mine.c_str(), 12345, 12345), 0);
  EXPECT_NE(cache_folder(), mine);
  EXPECT_THAT(why_nothing_is_cached(), testing::HasSubstr("belongs to user 12345"));
}

TEST_F(PathsTest, TheTemporaryFolderIsAbsoluteAndThere) {
  EXPECT_EQ(temporary_folder(), "/tmp");
  ::setenv("TMPDIR", "", 1);
  EXPECT_EQ(temporary_folder(), "/tmp");
  ::setenv("TMPDIR", ".", 1);
  EXPECT_TRUE(temporary_folder().is_absolute());
  ::setenv("TMPDIR", "/no/such/folder", 1);
  EXPECT_THROW(temporary_folder(), IoError);
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

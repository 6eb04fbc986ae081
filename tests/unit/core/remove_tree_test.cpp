#include "harness/core/io/remove_tree.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "harness/core/io/file.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

TEST(RemoveTree, RemovesFoldersWithoutPermissions) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "tree/closed/inner");
  std::ofstream(folder / "tree/closed/inner/file") << "x";
  fs::permissions(folder / "tree/closed/inner", fs::perms::none);
  fs::permissions(folder / "tree/closed", fs::perms::none);
  EXPECT_EQ(remove_tree(folder / "tree"), "");
  EXPECT_FALSE(fs::exists(folder / "tree"));
  EXPECT_EQ(remove_tree(folder / "tree"), "") << "nothing is there";
}

TEST(RemoveTree, RemovesImmutableFiles) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "tree");
  std::ofstream(folder / "tree/file") << "x";
  {
    const Descriptor file(::open((folder / "tree/file").c_str(), O_RDONLY | O_CLOEXEC));
    int flags = FS_IMMUTABLE_FL;
    if (::ioctl(file.get(), FS_IOC_SETFLAGS, &flags) != 0)
      GTEST_SKIP() << "files cannot be made immutable here";
  }
  std::error_code error;
  fs::remove(folder / "tree/file", error);
  ASSERT_TRUE(error) << "it is immutable";
  EXPECT_EQ(remove_tree(folder / "tree"), "");
  EXPECT_FALSE(fs::exists(folder / "tree"));
}

TEST(RemoveTree, LeavesTheTargetsOfLinks) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "tree");
  fs::create_directories(folder / "kept");
  fs::create_directory_symlink(folder / "kept", folder / "tree/link");
  EXPECT_EQ(remove_tree(folder / "tree"), "");
  EXPECT_TRUE(fs::exists(folder / "kept"));
}

}  // namespace
}  // namespace assay

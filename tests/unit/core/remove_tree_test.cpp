#include "harness/core/io/remove_tree.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

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

TEST(RemoveTree, RemovesMoreLevelsThanThereAreDescriptors) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "tree");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 128;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  Descriptor level(::open((folder / "tree").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 3000; ++i) {  // longer than a path may be
    ASSERT_EQ(::mkdirat(level.get(), "d", 0700), 0);
    level = Descriptor(::openat(level.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(level);
  }
  Descriptor(::openat(level.get(), "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).reset();
  level.reset();
  EXPECT_EQ(remove_tree(folder / "tree"), "");
  EXPECT_FALSE(fs::exists(folder / "tree"));
  ::setrlimit(RLIMIT_NOFILE, &before);
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

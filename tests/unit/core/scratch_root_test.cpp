#include "harness/core/io/scratch_root.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace assay {
namespace {

namespace fs = std::filesystem;

class ScratchRootTest : public ::testing::Test {
 protected:
  void SetUp() override {
    temporary_ = fs::temp_directory_path() / ("assay_scratch_" + std::to_string(::getpid()));
    fs::create_directories(temporary_);
    if (const char* set = std::getenv("TMPDIR")) before_ = set;
    ::setenv("TMPDIR", temporary_.c_str(), 1);
  }
  void TearDown() override {
    before_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before_.c_str(), 1);
    fs::remove_all(temporary_);
  }

  // The folder of a process that was killed while it had one.
  fs::path killed_run() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const ScratchRoot root(false);
      const std::string path = root.path().string();
      std::ofstream(root.path() / "cell.json") << "{}";
      [[maybe_unused]] const auto ignored = ::write(ends[1], path.data(), path.size());
      std::raise(SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
    char path[4096];
    const ssize_t count = ::read(ends[0], path, sizeof path);
    ::close(ends[0]);
    ::close(ends[1]);
    return std::string(path, static_cast<std::size_t>(count > 0 ? count : 0));
  }

  fs::path temporary_;
  std::string before_;
};

TEST_F(ScratchRootTest, is_gone_with_its_contents_at_the_end) {
  {
    const ScratchRoot root(false);
    EXPECT_EQ(root.path().parent_path(), temporary_);
    std::ofstream(root.path() / "cell.json") << "{}";
  }
  EXPECT_TRUE(fs::is_empty(temporary_));
}

TEST_F(ScratchRootTest, NextRunRemovesTheFolderOfAKilledRun) {
  const fs::path left = killed_run();
  ASSERT_TRUE(fs::exists(left / "cell.json"));
  const ScratchRoot next(false);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(next.path()));
}

// A run that is killed while it makes or removes its folder leaves one of these.
TEST_F(ScratchRootTest, OfARunKilledBetweenFolderAndLockIsRemoved) {
  fs::create_directories(temporary_ / "assay-scratch-abcdef");
  fs::create_directories(temporary_ / "assay-scratch-Ab12yz");
  std::ofstream(temporary_ / "assay-scratch-Ab12yz/lock").flush();
  EXPECT_EQ(sweep_stale_scratch(temporary_), 2);
  EXPECT_TRUE(fs::is_empty(temporary_));
}

// Sweepers take new folders before they have a lock; their runs make others.
TEST_F(ScratchRootTest, IsMadeWhileOthersSweep) {
  const pid_t sweeper = ::fork();
  if (sweeper == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) sweep_stale_scratch(temporary_);
  }
  for (int i = 0; i < 400; ++i) {
    const ScratchRoot root(i % 2 == 0);
    EXPECT_TRUE(fs::exists(root.path() / (i % 2 == 0 ? "kept" : "lock")));
  }
  ::kill(sweeper, SIGKILL);
  ::waitpid(sweeper, nullptr, 0);
  sweep_stale_scratch(temporary_);  // what the killed one left half done
  EXPECT_EQ(std::distance(fs::directory_iterator(temporary_), {}), 200) << "those that are kept";
}

TEST_F(ScratchRootTest, KeepsTheFolderOfARunningRun) {
  const auto first = std::make_unique<ScratchRoot>(false);
  const ScratchRoot second(false);
  EXPECT_TRUE(fs::exists(first->path()));
  EXPECT_NE(first->path(), second.path());
}

TEST_F(ScratchRootTest, that_is_kept_is_never_swept) {
  fs::path kept;
  {
    const ScratchRoot root(true);
    kept = root.path();
  }
  EXPECT_EQ(sweep_stale_scratch(temporary_), 0);
  EXPECT_TRUE(fs::exists(kept));
}

TEST_F(ScratchRootTest, does_not_touch_folders_of_others) {
  fs::create_directories(temporary_ / "assay-backup");
  fs::create_directories(temporary_ / "assay-scratch-others");
  std::ofstream(temporary_ / "assay-scratch-others/lock") << "somebody else's lock";
  fs::create_directories(temporary_ / "assay-scratch-no_one");
  std::ofstream(temporary_ / "assay-scratch-no_one/notes") << "without a lock";
  fs::create_directories(temporary_ / "assay-scratch-secret");
  std::ofstream(temporary_ / "assay-scratch-secret/lock").flush();
  std::ofstream(temporary_ / "assay-scratch-secret/notes") << "with an empty lock";
  fs::create_directories(temporary_ / "elsewhere");
  fs::copy(killed_run() / "lock", temporary_ / "elsewhere/lock");
  fs::create_directory_symlink(temporary_ / "elsewhere", temporary_ / "assay-scratch-linked");
  fs::create_directory_symlink(temporary_ / "nowhere", temporary_ / "assay-scratch-broken");
  EXPECT_EQ(sweep_stale_scratch(temporary_), 1) << "only the killed run";
  for (const char* name :
       {"assay-backup", "assay-scratch-others/lock", "assay-scratch-no_one/notes",
        "assay-scratch-secret/lock", "assay-scratch-secret/notes", "elsewhere/lock", "assay-scratch-linked"})
    EXPECT_TRUE(fs::exists(temporary_ / name)) << name;
}

TEST_F(ScratchRootTest, sweeps_a_missing_folder_without_error) {
  EXPECT_EQ(sweep_stale_scratch(temporary_ / "absent"), 0);
}

}  // namespace
}  // namespace assay

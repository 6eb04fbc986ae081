#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/numerics.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using testing::HasSubstr;

std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

std::size_t entries(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

TEST(AtomicFile, replaces_the_file_only_on_commit) {
  const TemporaryFolder folder;
  write_atomically(folder / "x", "old");
  {
    AtomicFile file(folder / "x");
    file.write("new");
    EXPECT_EQ(read_text(folder / "x"), "old");
  }
  EXPECT_EQ(read_text(folder / "x"), "old");
  EXPECT_EQ(entries(folder.path()), 1u) << "an abandoned file leaves nothing behind";
  AtomicFile file(folder / "x");
  file.write("new");
  file.commit();
  EXPECT_EQ(read_text(folder / "x"), "new");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(WriteNewWithin, FollowsNoLinkAndReplacesNothing) {
  const TemporaryFolder folder;
  const auto reason = [&](const char* place) -> std::string {
    try {
      write_new_within(folder / "own", place, "text");
    } catch (const IoError& error) {
      return error.what();
    }
    return "written";
  };
  std::filesystem::create_directories(folder / "own/check");
  std::filesystem::create_directories(folder / "other");
  write_atomically(folder / "other/report", "report");
  std::filesystem::create_symlink(folder / "other/report", folder / "own/check/link");
  std::filesystem::create_symlink(folder / "other", folder / "own/away");
  std::filesystem::create_symlink(folder / "other/none", folder / "own/check/dangling");
  EXPECT_EQ(reason("check/new"), "written");
  EXPECT_EQ(read_text(folder / "own/check/new"), "text");
  for (const char* place : {"check/new", "check/link", "check/dangling", "away/new"})
    EXPECT_THAT(reason(place), ::testing::HasSubstr("the worker put it there")) << place;
  EXPECT_EQ(reason("../other/new").find("written"), std::string::npos);
  EXPECT_EQ(read_text(folder / "other/report"), "report");
  EXPECT_EQ(entries(folder / "other"), 1u);
}

// In a process of its own, which stays in the folder.
TEST(AtomicFile, SaysThatTheWorkingDirectoryWasRemoved) {
  const TemporaryFolder folder;
  const auto write_there = [&] {
    std::filesystem::create_directory(folder / "gone");
    std::filesystem::current_path(folder / "gone");
    std::filesystem::remove(folder / "gone");
    try {
      const AtomicFile file("report.json");
    } catch (const Error& error) {
      std::cerr << error.what();
    }
    std::exit(0);
  };
  EXPECT_EXIT(write_there(), testing::ExitedWithCode(0), "the working directory was removed");
}

TEST(AtomicFile, names_a_missing_folder_and_a_path_that_is_not_a_file) {
  const TemporaryFolder folder;
  EXPECT_THAT(message([&] { write_atomically(folder / "no" / "x", "x"); }),
              HasSubstr("does not exist; create it"));
  EXPECT_THAT(message([&] { write_atomically(folder.path(), "x"); }), HasSubstr("is a folder"));
  EXPECT_THAT(message([&] { write_atomically("", "x"); }), HasSubstr("empty"));
  EXPECT_THAT(message([&] { read_text(folder.path()); }), HasSubstr("is a folder"));
}

TEST(AtomicFile, says_that_the_disk_is_full) {
  EXPECT_THAT(message([&] { write_atomically("/dev/full", "x"); }),
              HasSubstr("No space left on device; free some space"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(AtomicFile, leaves_the_old_file_when_the_new_one_does_not_fit) {
  const TemporaryFolder folder;
  write_atomically(folder / "x", "old");
  write_atomically(folder / "large", std::string(100'000, 'x'));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 10'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string text = message([&] { write_atomically(folder / "x", std::string(100'000, 'x')); });
  const std::string copied = message([&] { copy_atomically(folder / "large", folder / "x"); });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_THAT(text, HasSubstr("limit on file sizes"));
  EXPECT_EQ(copied, text);
  EXPECT_EQ(read_text(folder / "x"), "old");
  EXPECT_EQ(entries(folder.path()), 2u);
  copy_atomically(folder / "large", folder / "x");
  EXPECT_EQ(read_text(folder / "x"), std::string(100'000, 'x'));
}

TEST(AtomicFile, removes_only_files_of_a_killed_writer) {
  const TemporaryFolder folder;
  write_atomically(folder / "x", "old");
  write_atomically(folder / "x.1.2.tmp", "of a writer that was killed");
  for (const char* other : {"x.tmp", "x.1.tmp", "y.1.2.tmp", "xx.1.2.tmp", "x.1.2.tmp.kept"})
    write_atomically(folder / other, "another's");
  AtomicFile living(folder / "x");
  living.write("new");
  EXPECT_EQ(remove_abandoned(folder / "x"), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder / "x.1.2.tmp"));
  EXPECT_EQ(entries(folder.path()), 7u);
  living.commit();
  EXPECT_EQ(read_text(folder / "x"), "new");
  EXPECT_EQ(remove_abandoned(folder / "x"), 0u);
  EXPECT_EQ(remove_abandoned(folder / "no" / "x"), 0u);
}

TEST(AtomicFile, keeps_a_link_a_link) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("target", folder / "link");
  write_atomically(folder / "link", "x");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_text(folder / "target"), "x");
}

TEST(AtomicFile, can_be_asked_beforehand_and_leaves_nothing) {
  const TemporaryFolder folder;
  require_writable(folder / "x");
  EXPECT_EQ(entries(folder.path()), 0u);
  EXPECT_THROW(require_writable(folder / "no" / "x"), IoError);
  make_folder_of(folder / "no" / "such" / "x");
  require_writable(folder / "no" / "such" / "x");
  make_folder_of("x");
  EXPECT_THROW(make_folder_of("/dev/null/x/y"), IoError);
}

TEST(AtomicFile, always_shows_readers_a_whole_file) {
  const TemporaryFolder folder;
  write_atomically(folder / "x", std::string(5000, 'a'), false);
  std::jthread writer([&](const std::stop_token& stop) {
    for (char c = 'a'; !stop.stop_requested(); c = c == 'z' ? 'a' : static_cast<char>(c + 1))
      write_atomically(folder / "x", std::string(5000, c), false);
  });
  for (int i = 0; i < 300; ++i) {
    const std::string text = read_text(folder / "x");
    ASSERT_EQ(text, std::string(5000, text.at(0)));
  }
}

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  Philox random(1, "pattern");
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(7));
  return bytes;
}

TEST(ForeignFile, is_read_where_it_is_regular_and_small_enough) {
  const TemporaryFolder folder;
  write_atomically(folder.path() / "file", "four", false);
  EXPECT_EQ(read_foreign_file(folder.path() / "file", 4).size(), 4u);
  EXPECT_THAT(message([&] { read_foreign_file(folder.path() / "file", 3); }), HasSubstr("larger than 3"));
}

TEST(ForeignFile, is_refused_at_once_where_it_is_a_pipe_a_device_or_a_link) {
  const TemporaryFolder folder;
  write_atomically(folder.path() / "file", "four", false);
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink(folder.path() / "file", folder.path() / "link");
  std::filesystem::create_symlink("/dev/zero", folder.path() / "zeros");
  for (const char* name : {"pipe", "link", "zeros", "absent", "."})
    EXPECT_NE(message([&] { read_foreign_file(folder.path() / name, 1 << 20); }), "") << name;
  EXPECT_THAT(message([&] { MappedFile(folder.path() / "pipe"); }), HasSubstr("is not a regular file"));
}

TEST(Gzip, reads_compressed_and_plain_files) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes = pattern(300'000);
  write_gzip(folder / "x.gz", bytes);
  EXPECT_LT(std::filesystem::file_size(folder / "x.gz"), 200'000u);
  EXPECT_EQ(read_gzip_or_plain(folder / "x.gz"), bytes);
  write_atomically(folder / "x", bytes);
  EXPECT_EQ(read_gzip_or_plain(folder / "x"), bytes);
  write_atomically(folder / "two",
                   read_text(folder / "x.gz") + read_text(folder / "x.gz") + std::string(100, '\0'));
  EXPECT_EQ(read_gzip_or_plain(folder / "two").size(), 600'000u);
}

TEST(Gzip, names_a_file_that_is_truncated_wherever_it_ends) {
  const TemporaryFolder folder;
  write_gzip(folder / "x", pattern(20'000));
  const std::string whole = read_text(folder / "x");
  for (std::size_t size = 2; size < whole.size(); size += 1 + size / 8) {
    write_atomically(folder / "cut", whole.substr(0, size), false);
    EXPECT_THAT(message([&] { read_gzip_or_plain(folder / "cut"); }), HasSubstr("cut: is truncated")) << size;
  }
}

TEST(Gzip, names_a_file_that_is_corrupt) {
  const TemporaryFolder folder;
  write_gzip(folder / "x", pattern(20'000));
  const std::string whole = read_text(folder / "x");
  Philox random(1, "corrupt");
  for (int round = 0; round < 200; ++round) {
    std::string bad = whole;
    // Past the header, whose time stamp and name are free.
    const std::size_t at = 10 + random.below(whole.size() - 10);
    bad[at] = static_cast<char>(bad[at] ^ static_cast<char>(1 + random.below(255)));
    write_atomically(folder / "bad", bad, false);
    EXPECT_NE(message([&] { read_gzip_or_plain(folder / "bad"); }), "") << at;
  }
  write_atomically(folder / "bad", whole + "tail");
  EXPECT_THAT(message([&] { read_gzip_or_plain(folder / "bad"); }), HasSubstr("are not gzip data"));
}

TEST(Gzip, stops_at_a_limit) {
  const TemporaryFolder folder;
  write_gzip(folder / "bomb", std::vector<std::byte>(10'000'000));
  EXPECT_THAT(message([&] { read_gzip_or_plain(folder / "bomb", 1'000'000); }),
              HasSubstr("more than 1000000 bytes"));
}

// FIPS 180-4 examples.
TEST(Sha256, gives_the_known_answers) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 digest;
  digest.add("a");
  digest.add("bc");
  EXPECT_EQ(digest.finish(), sha256("abc"));
}

TEST(Sha256, ReadsLongFilesAndNoPipes) {
  const TemporaryFolder folder;
  const std::string text(600'000, 'x');
  write_atomically(folder.path() / "long", text);
  EXPECT_EQ(sha256_of_file(folder.path() / "long"), sha256(text));
  const std::filesystem::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(sha256_of_file(pipe), IoError);
}

TEST(Bf16, rounds_to_nearest_even_and_keeps_nan) {
  EXPECT_EQ(from_bf16(to_bf16(1.0f)), 1.0f);
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f), to_bf16(1.0f)) << "a tie goes to the even neighbour";
  EXPECT_EQ(from_bf16(to_bf16(1.0f + 3 * 0x1p-8f)), 1.0f + 2 * 0x1p-7f);
  EXPECT_EQ(from_bf16(to_bf16(1.0f + 0x1.8p-8f)), 1.0f + 0x1p-7f);
  EXPECT_TRUE(std::isinf(from_bf16(to_bf16(3.4e38f))));
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(from_bf16(to_bf16(-0.0f)), 0.0f);
}

}  // namespace
}  // namespace assay

#include "harness/conductor/data/sample_files.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/philox.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/unit/conductor/data/reason_of.hpp"

namespace assay {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t enough = 1 << 16;

IdxArray images() {
  IdxArray array{{3, 2, 2}, std::vector<std::byte>(12)};
  for (std::size_t i = 0; i < 12; ++i) array.bytes[i] = static_cast<std::byte>(200 + i);
  return array;
}

std::string content() {
  const TemporaryFolder folder;
  write_idx(folder / "x", images());
  return read_text(folder / "x");
}

std::string reason(const std::string& text) {
  const TemporaryFolder folder;
  write_atomically(folder / "x-idx3-ubyte", text, false);
  try {
    read_idx(folder / "x-idx3-ubyte", enough);
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("x-idx3-ubyte"));
    return error.what();
  }
  return "read";
}

TEST(Idx, reads_plain_and_compressed_files) {
  const TemporaryFolder folder;
  write_idx(folder / "x", images());
  EXPECT_EQ(read_idx(folder / "x", enough).shape, (Shape{3, 2, 2}));
  EXPECT_EQ(read_idx(folder / "x", enough).bytes, images().bytes);
  write_gzip(folder / "x.gz", content());
  EXPECT_EQ(read_idx(folder / "x.gz", enough).bytes, images().bytes);
}

TEST(Idx, checks_every_field_of_the_header) {
  const std::string good = content();
  const auto with = [&](std::size_t at, char value) {
    std::string bad = good;
    bad[at] = value;
    return reason(bad);
  };
  EXPECT_EQ(reason(good), "read");
  EXPECT_THAT(with(0, 1), HasSubstr("not an IDX file"));
  EXPECT_THAT(with(1, 1), HasSubstr("not an IDX file"));
  EXPECT_THAT(with(2, 0x0d), HasSubstr("type 0x0d (32-bit real numbers)"));
  EXPECT_THAT(with(3, 0), HasSubstr("0 dimensions"));
  EXPECT_THAT(with(3, 9), HasSubstr("9 dimensions"));
  EXPECT_THAT(with(3, 2), HasSubstr("too long"));
  EXPECT_THAT(with(7, 4), HasSubstr("truncated"));
  EXPECT_THAT(with(7, 2), HasSubstr("too long"));
  EXPECT_THAT(with(7, 0), HasSubstr("has no samples"));
  EXPECT_THAT(with(11, 0), HasSubstr("has empty samples: dimension 1 in its header is 0"));
  EXPECT_THAT(with(4, '\xff'), HasSubstr("is too large"));
}

TEST(Idx, ReadsOnlyTheShape) {
  const TemporaryFolder folder;
  write_idx(folder / "x", images());
  EXPECT_EQ(read_idx_shape(folder / "x"), (Shape{3, 2, 2}));
  write_gzip(folder / "x.gz", content());
  EXPECT_EQ(read_idx_shape(folder / "x.gz"), (Shape{3, 2, 2}));
  const std::string packed = read_text(folder / "x.gz");
  write_atomically(folder / "x", content().substr(0, 20), false);
  EXPECT_THAT(reason_of([&] { read_idx_shape(folder / "x"); }), HasSubstr("truncated"));
  write_atomically(folder / "x.gz", packed.substr(0, 11), false);
  EXPECT_THAT(reason_of([&] { read_idx_shape(folder / "x.gz"); }), HasSubstr("truncated"));
  write_atomically(folder / "x", "<html><head><title>404 Not Found</title></head></html>", false);
  EXPECT_THAT(reason_of([&] { read_idx_shape(folder / "x"); }), HasSubstr("a web page"));
}

TEST(Idx, names_a_file_that_is_truncated_wherever_it_ends) {
  const std::string good = content();
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THAT(reason(good.substr(0, size)), HasSubstr("truncated"));
  EXPECT_THAT(reason(good + "x"), HasSubstr("too long"));
}

// 16 MB in 16 kB, with a header of three dimensions.
void write_bomb(const std::filesystem::path& path, const std::string& extents) {
  const std::string header = std::string("\0\0\x08\x03", 4) + extents;
  write_gzip(path, header + std::string(16 << 20, '\0'));
}

TEST(Idx, RefusesABombByItsHeaderAndByWhatItInflatesTo) {
  const TemporaryFolder folder;
  // 65,536 images of 256 by 128, but only 16 MB of them: more than the set has.
  write_bomb(folder / "far.gz", std::string("\0\1\0\0\0\0\1\0\0\0\0\x80", 12));
  EXPECT_THAT(reason_of([&] { read_idx(folder / "far.gz", 1 << 20); }),
              HasSubstr("the shape in its header is (65536, 256, 128)"));
  EXPECT_THAT(reason_of([&] { read_idx(folder / "far.gz", std::uint64_t{1} << 32); }),
              HasSubstr("truncated"));
  // 3 images of 2 by 2, followed by 16 MB.
  write_bomb(folder / "long.gz", std::string("\0\0\0\3\0\0\0\2\0\0\0\2", 12));
  EXPECT_THAT(reason_of([&] { read_idx(folder / "long.gz", enough); }),
              HasSubstr("inflates to more than 28 bytes"));
}

TEST(Idx, RefusesAPlainFileThatIsLargerThanTheSetBeforeItIsRead) {
  const TemporaryFolder folder;
  write_idx(folder / "x", images());
  std::filesystem::resize_file(folder / "x", std::uintmax_t{1} << 40);
  EXPECT_THAT(reason_of([&] { read_idx(folder / "x", enough); }), HasSubstr("is larger than 65536 bytes"));
  // 256 images of 256 by 65,536: 4 GiB, but without any data.
  write_atomically(folder / "y", std::string("\0\0\x08\x03\0\0\1\0\0\0\1\0\0\1\0\0", 16), false);
  EXPECT_THAT(reason_of([&] { read_idx(folder / "y", enough); }), HasSubstr("truncated"));
}

TEST(Idx, survives_mutated_files) {
  const std::string good = content();
  Philox random(1, "idx");
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    std::string bad = good;
    for (int change = 0; change < 2; ++change) bad[random.below(16)] = static_cast<char>(random.next());
    refused += reason(bad) != "read";
  }
  EXPECT_GT(refused, 400);
}

}  // namespace
}  // namespace assay

#include "harness/conductor/data/sample_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/philox.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using testing::HasSubstr;

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
    read_idx(folder / "x-idx3-ubyte");
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("x-idx3-ubyte"));
    return error.what();
  }
  return "read";
}

TEST(Idx, reads_plain_and_compressed_files) {
  const TemporaryFolder folder;
  write_idx(folder / "x", images());
  EXPECT_EQ(read_idx(folder / "x").shape, (Shape{3, 2, 2}));
  EXPECT_EQ(read_idx(folder / "x").bytes, images().bytes);
  write_gzip(folder / "x.gz", content());
  EXPECT_EQ(read_idx(folder / "x.gz").bytes, images().bytes);
}

TEST(Idx, checks_every_field_of_the_header) {
  const std::string good = content();
  const auto with = [&](std::size_t at, char value) {
    std::string bad = good;
    bad[at] = value;
    return reason(bad);
  };
  EXPECT_EQ(reason(good), "read");
  EXPECT_THAT(with(0, 1), HasSubstr("no IDX file"));
  EXPECT_THAT(with(1, 1), HasSubstr("no IDX file"));
  EXPECT_THAT(with(2, 0x0d), HasSubstr("type 0x0d"));
  EXPECT_THAT(with(3, 0), HasSubstr("0 dimensions"));
  EXPECT_THAT(with(3, 9), HasSubstr("9 dimensions"));
  EXPECT_THAT(with(3, 2), HasSubstr("too long"));
  EXPECT_THAT(with(7, 4), HasSubstr("truncated"));
  EXPECT_THAT(with(7, 2), HasSubstr("too long"));
  EXPECT_THAT(with(7, 0), HasSubstr("dimension 0 is 0"));
  EXPECT_THAT(with(4, '\xff'), HasSubstr("cannot be true"));
}

TEST(Idx, names_a_file_that_is_truncated_wherever_it_ends) {
  const std::string good = content();
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THAT(reason(good.substr(0, size)), HasSubstr("truncated"));
  EXPECT_THAT(reason(good + "x"), HasSubstr("too long"));
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

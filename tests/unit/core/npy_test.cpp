#include "harness/core/io/npy.hpp"

#include <cstring>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/philox.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using testing::HasSubstr;

std::string npy(std::string dictionary, std::size_t data, char major = 1) {
  std::string text = "\x93NUMPY";
  text += major;
  text += '\0';
  text += static_cast<char>(dictionary.size() & 0xff);
  text += static_cast<char>(dictionary.size() >> 8);
  if (major > 1) text += std::string(2, '\0');
  return text + dictionary + std::string(data, '\1');
}

std::string npy_reason(const std::string& content) {
  const TemporaryFolder folder;
  write_atomically(folder / "x.npy", content);
  try {
    read_npy(folder / "x.npy");
  } catch (const IoError& error) {
    EXPECT_EQ(error.path(), folder / "x.npy");
    EXPECT_THROW(MappedNpy(folder / "x.npy"), IoError);
    return error.what();
  }
  return "read";
}

TEST(Npy, is_read_back_unchanged) {
  const TemporaryFolder folder;
  for (const Shape& shape : {Shape{}, Shape{6}, Shape{2, 3}, Shape{1, 2, 3, 1}, Shape{0, 4}}) {
    for (const DType dtype : {DType::f64, DType::f32, DType::i32, DType::u8}) {
      HostTensor tensor = HostTensor::zeros("", {dtype, shape});
      for (std::size_t i = 0; i < tensor.bytes.size(); ++i) tensor.bytes[i] = static_cast<std::byte>(i * 7);
      write_npy(folder / "x.npy", tensor.type, tensor.bytes);
      const HostTensor back = read_npy(folder / "x.npy");
      EXPECT_EQ(back.type, tensor.type);
      EXPECT_EQ(back.bytes, tensor.bytes);
      const MappedNpy mapped(folder / "x.npy");
      EXPECT_EQ(mapped.type(), tensor.type);
      EXPECT_TRUE(
          std::equal(mapped.bytes().begin(), mapped.bytes().end(), tensor.bytes.begin(), tensor.bytes.end()));
    }
  }
}

TEST(Npy, begins_its_data_at_a_multiple_of_64_bytes) {
  const TemporaryFolder folder;
  for (std::int64_t n = 1; n < 100'000; n *= 3) {
    const HostTensor tensor = HostTensor::zeros("", {DType::u8, {n, 1}});
    write_npy(folder / "x.npy", tensor.type, tensor.bytes);
    EXPECT_EQ((std::filesystem::file_size(folder / "x.npy") - static_cast<std::size_t>(n)) % 64, 0u);
  }
}

TEST(Npy, reads_every_version_of_the_header_and_its_spellings) {
  for (const char major : {'\1', '\2', '\3'})
    EXPECT_EQ(npy_reason(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }  \n  ", 8, major)),
              "read");
  EXPECT_EQ(npy_reason(npy("{\"shape\":(2,),\"descr\":\"<i4\",\"fortran_order\":False} ", 8)), "read");
  EXPECT_EQ(npy_reason(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 1L), }", 8)), "read");
}

TEST(Npy, refuses_a_file_that_does_not_match_its_header) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  EXPECT_THAT(npy_reason(""), HasSubstr("truncated"));
  EXPECT_THAT(npy_reason("hello, this is text"), HasSubstr("not a .npy file"));
  EXPECT_THAT(npy_reason(npy(good, 11)), HasSubstr("truncated"));
  EXPECT_THAT(npy_reason(npy(good, 13)), HasSubstr("too long"));
  EXPECT_THAT(npy_reason(npy(good, 12).substr(0, 30)), HasSubstr("truncated"));
  EXPECT_THAT(npy_reason(npy(good, 12, 4)), HasSubstr("version 4"));
  EXPECT_THAT(npy_reason(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }", 12)),
              HasSubstr("'>f4'"));
  EXPECT_THAT(npy_reason(npy("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", 12)),
              HasSubstr("'|O'"));
  EXPECT_THAT(npy_reason(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }", 12)),
              HasSubstr("C order"));
  EXPECT_THAT(npy_reason(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }", 12)),
              HasSubstr("no number"));
  EXPECT_THAT(npy_reason(npy("{'descr': '<f4', 'fortran_order': False, }", 12)), HasSubstr("lacks"));
  EXPECT_THAT(npy_reason(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 12)),
              HasSubstr("repeated"));
  EXPECT_THAT(npy_reason(npy(good + "x", 12)), HasSubstr("follow the dictionary"));
}

TEST(Npy, refuses_shapes_whose_size_overflows) {
  const auto shaped = [](const std::string& shape) {
    return npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + ",), }", 12);
  };
  EXPECT_THAT(npy_reason(shaped("99999999999999999999999")), HasSubstr("too large"));
  EXPECT_THAT(npy_reason(shaped("4294967296, 4294967296")), HasSubstr("too large"));
  EXPECT_THAT(npy_reason(shaped("4611686018427387907")),
              HasSubstr("too large"));  // times 4 is 12 modulo 2^64
  std::string many = "1";
  for (int i = 0; i < 100; ++i) many += ", 1";
  EXPECT_THAT(npy_reason(shaped(many)), HasSubstr("dimensions"));
}

TEST(Npy, names_a_file_that_is_not_there) {
  try {
    read_npy("/nowhere/x.npy");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/x.npy"));
    EXPECT_THAT(error.what(), HasSubstr("No such file"));
  }
}

// No input may crash us: with any mutation, the file is read completely or refused.
TEST(Npy, survives_mutated_files) {
  const TemporaryFolder folder;
  const std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }\n", 24);
  Philox random(1, "npy");
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bad = good;
    for (std::uint64_t change = 0; change <= random.below(3); ++change)
      bad[random.below(bad.size())] = static_cast<char>(random.next());
    if (random.below(4) == 0) bad.resize(random.below(bad.size()));
    write_atomically(folder / "x.npy", bad, false);
    try {
      const MappedNpy array(folder / "x.npy");
      ASSERT_EQ(static_cast<std::size_t>(array.type().bytes()), array.bytes().size());
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace assay

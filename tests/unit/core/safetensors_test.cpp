#include "harness/core/io/safetensors.hpp"

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

std::string file_of(std::string header, std::size_t data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data, '\0');
}

std::string safetensors_reason(const std::string& content) {
  const TemporaryFolder folder;
  write_atomically(folder / "x.safetensors", content, false);
  try {
    read_safetensors(folder / "x.safetensors");
  } catch (const IoError& error) {
    return error.what();
  }
  return "read";
}

TEST(WeightsFile, ReadsTensorsNextToOthersOfUnknownTypes) {
  const TemporaryFolder folder;
  const std::string header = R"({"ids": {"dtype": "I64", "shape": [1, 2], "data_offsets": [0, 16]},
                                 "w": {"dtype": "F32", "shape": [3], "data_offsets": [16, 28]}})";
  write_atomically(folder / "x.safetensors", file_of(header, 28), false);
  const WeightsFile weights(folder / "x.safetensors");
  EXPECT_FALSE(weights.has("absent"));
  EXPECT_EQ(weights.read("w", {3}).type, (TensorType{DType::f32, {3}}));
  EXPECT_EQ(weights.type_text("ids"), "I64 (1, 2)");
  EXPECT_THROW(weights.read("w", {4}), IoError);
  EXPECT_THROW(weights.read("ids", {1, 2}), IoError);
  EXPECT_THROW(weights.read("absent", {3}), IoError);
  EXPECT_THAT(safetensors_reason(file_of(header, 28)), HasSubstr("I64"));
}

TEST(Safetensors, gives_back_names_types_bytes_and_metadata_in_order) {
  const TemporaryFolder folder;
  std::vector<HostTensor> tensors = {
      HostTensor::zeros("z", {DType::f32, {2, 3}}),  HostTensor::zeros("a.weight", {DType::bf16, {5}}),
      HostTensor::zeros("scalar", {DType::f64, {}}), HostTensor::zeros("i", {DType::i32, {1, 1}}),
      HostTensor::zeros("u", {DType::u8, {3}}),      HostTensor::zeros("last", {DType::f32, {1}})};
  for (HostTensor& tensor : tensors)
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i)
      tensor.bytes[i] = static_cast<std::byte>(i + tensor.name.size());
  write_safetensors(folder / "x", tensors, {{"step", "3"}});
  SafetensorsMetadata metadata;
  const std::vector<HostTensor> back = read_safetensors(folder / "x", &metadata);
  ASSERT_EQ(back.size(), tensors.size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i].name, tensors[i].name);
    EXPECT_EQ(back[i].type, tensors[i].type);
    EXPECT_EQ(back[i].bytes, tensors[i].bytes);
  }
  EXPECT_EQ(metadata, (SafetensorsMetadata{{"step", "3"}}));
}

TEST(Safetensors, refuses_to_write_a_duplicate_or_invalid_name) {
  const TemporaryFolder folder;
  const std::vector<HostTensor> twice = {HostTensor::zeros("a", {}), HostTensor::zeros("a", {})};
  EXPECT_THROW(write_safetensors(folder / "x", twice), IoError);
  const std::vector<HostTensor> bad = {HostTensor::zeros("\xff", {})};
  EXPECT_THROW(write_safetensors(folder / "x", bad), IoError);
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
}

TEST(Safetensors, checks_every_field_of_the_header) {
  EXPECT_EQ(safetensors_reason(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8)),
            "read");
  EXPECT_EQ(safetensors_reason(file_of("{}   ", 0)), "read");
  EXPECT_THAT(safetensors_reason("abc"), HasSubstr("truncated"));
  EXPECT_THAT(safetensors_reason(std::string(8, '\xff') + "{}"), HasSubstr("truncated"));
  EXPECT_THAT(safetensors_reason(file_of("[]", 0)), HasSubstr("not a JSON object"));
  EXPECT_THAT(safetensors_reason(file_of("{", 0)), HasSubstr("not JSON"));
  EXPECT_THAT(safetensors_reason(file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8)),
              HasSubstr("needs 12 bytes"));
  EXPECT_THAT(safetensors_reason(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4)),
              HasSubstr("outside"));
  EXPECT_THAT(safetensors_reason(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8)),
              HasSubstr("outside"));
  EXPECT_THAT(safetensors_reason(file_of(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8)),
              HasSubstr("sizes"));
  EXPECT_THAT(safetensors_reason(file_of(
                  R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8)),
              HasSubstr("too large"));
  EXPECT_THAT(safetensors_reason(file_of(R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", 8)),
              HasSubstr("Q4"));
  EXPECT_THAT(safetensors_reason(file_of(R"({"a":{"dtype":"F32","shape":[2]}})", 8)),
              HasSubstr("data_offsets"));
  EXPECT_THAT(
      safetensors_reason(file_of(
          R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
          8)),
      HasSubstr("overlap"));
  EXPECT_THAT(safetensors_reason(file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", 8)),
              HasSubstr("hole"));
  EXPECT_THAT(safetensors_reason(file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 8)),
              HasSubstr("after the last tensor"));
  EXPECT_THAT(
      safetensors_reason(file_of(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          4)),
      HasSubstr("twice"));
  EXPECT_THAT(safetensors_reason(file_of(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("strings"));
}

TEST(Safetensors, survives_mutated_files) {
  const TemporaryFolder folder;
  const std::string good = file_of(
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})",
      22);
  Philox random(1, "safetensors");
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bad = good;
    for (std::uint64_t change = 0; change <= random.below(3); ++change)
      bad[random.below(bad.size())] =
          static_cast<char>(random.below(2) == 0 ? random.next() : 32 + random.below(95));
    if (random.below(4) == 0) bad.resize(random.below(bad.size()));
    write_atomically(folder / "x", bad, false);
    try {
      for (const HostTensor& tensor : read_safetensors(folder / "x"))
        ASSERT_EQ(static_cast<std::size_t>(tensor.type.bytes()), tensor.bytes.size());
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Safetensors, survives_deeply_nested_headers) {
  EXPECT_THAT(safetensors_reason(file_of(std::string(100'000, '['), 0)), HasSubstr("nested too deep"));
}

}  // namespace
}  // namespace assay

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/npy_labels.hpp"
#include "harness/conductor/data/preparation.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What np.save writes for labels of `descr`.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(text.size());
  head += '\0';
  return head + text + data;
}

struct Own {
  TemporaryFolder folder;
  PrepareOptions options;
  Own() {
    options.folders = {folder.path()};
    options.cache = folder / "cache";
    std::filesystem::create_directories(folder / "npy");
    std::vector<float> inputs(25 * 6);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i);
    write_npy(folder / "npy" / "inputs.npy", {DType::f32, {25, 1, 2, 3}}, std::span<const float>(inputs));
    std::string labels;
    for (int i = 0; i < 25; ++i) labels += std::string{static_cast<char>(i % 4), 0, 0, 0, 0, 0, 0, 0};
    write_labels(npy("<i8", "(25,)", labels));
  }
  void write_labels(const std::string& text) const {
    write_atomically(folder / "npy" / "labels.npy", text, false);
  }
  std::string reason() const {
    try {
      prepare_dataset("npy", options);
    } catch (const IoError& error) {
      return error.what();
    }
    return "read";
  }
};

TEST(OwnArrays, are_split_by_their_numbers_and_say_shape_and_classes_themselves) {
  const Own own;
  const Manifest manifest = prepare_dataset("npy", own.options).manifest;
  EXPECT_EQ(manifest.sample_shape, (Shape{1, 2, 3}));
  EXPECT_EQ(manifest.classes, 4);
  EXPECT_THAT(manifest.scale, ElementsAre(1.0f));
  EXPECT_EQ(manifest.splits.at("train").count, 21);
  EXPECT_EQ(manifest.splits.at("validation").count, 2);
  EXPECT_EQ(manifest.splits.at("test").count, 2);
  const MappedNpy test(manifest.splits.at("test").inputs), labels(manifest.splits.at("test").labels);
  EXPECT_EQ(test.as<float>()[0], 9 * 6);
  EXPECT_EQ(test.as<float>()[6], 19 * 6);
  EXPECT_EQ(labels.as<std::int32_t>()[0], 1);
  EXPECT_EQ(MappedNpy(manifest.splits.at("train").inputs).as<float>()[8 * 6], 10 * 6);
  const SampleKind kind = find_dataset("npy").format->describe(own.folder / "npy");
  EXPECT_EQ(kind.sample_shape, (Shape{1, 2, 3}));
  EXPECT_EQ(kind.classes, 4);
}

TEST(OwnArrays, refuse_what_does_not_fit) {
  const Own own;
  own.write_labels(npy("<i4", "(2,)", std::string(8, '\0')));
  EXPECT_THAT(own.reason(), HasSubstr("2 labels for 25 inputs"));
  own.write_labels(npy("|i1", "(25,)", std::string(25, '\xff')));
  EXPECT_THAT(own.reason(), HasSubstr("label 0 is -1"));
  own.write_labels(npy("<f4", "(25,)", std::string(100, '\0')));
  EXPECT_THAT(own.reason(), HasSubstr("holds '<f4' (25), wanted labels"));
  own.write_labels(npy("<i8", "(25,)", std::string(200, '\x11')));
  EXPECT_THAT(own.reason(), HasSubstr("label 0 is 1229782938247303441"));
  own.write_labels(npy("|b1", "(25,)", std::string(24, '\1')));
  EXPECT_THAT(own.reason(), HasSubstr("is truncated"));
  own.write_labels(npy("|b1", "(25,)", std::string(25, '\1')));
  EXPECT_EQ(own.reason(), "read");
  const std::vector<std::int32_t> words(25);
  write_npy(own.folder / "npy" / "inputs.npy", {DType::i32, {25}}, std::span<const std::int32_t>(words));
  EXPECT_THAT(own.reason(), HasSubstr("holds '<i4' (25)"));
  const std::vector<std::uint8_t> few(9);
  write_npy(own.folder / "npy" / "inputs.npy", {DType::u8, {9, 1}}, std::span<const std::uint8_t>(few));
  EXPECT_THAT(own.reason(), HasSubstr("9 samples; 10 are needed"));
}

}  // namespace
}  // namespace assay

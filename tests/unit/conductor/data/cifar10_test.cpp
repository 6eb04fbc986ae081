#include "harness/conductor/data/sample_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/preparation.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using testing::HasSubstr;

// Five files of three samples and one of four, as the publisher's archive lays them out. Sample i of all has
// label i % 10, red (i), green (i + 50), blue (i + 100), and its pixel 1 is one larger.
struct LittleCifar {
  TemporaryFolder folder;
  Dataset dataset{"cifar10", "", {3, 32, 32}, 10, 12, 3, 4, "fetch it", &cifar10_format()};
  PrepareOptions options;

  LittleCifar() {
    options.folders = {folder / "data"};
    options.cache = folder / "cache";
    std::filesystem::create_directories(home());
    for (int file = 0; file < 5; ++file)
      write("data_batch_" + std::to_string(file + 1) + ".bin", records(file * 3, 3));
    write("test_batch.bin", records(15, 4));
    write("batches.meta.txt", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  }
  std::filesystem::path home() const { return folder / "data" / "cifar10" / "cifar-10-batches-bin"; }
  void write(const std::string& name, const std::string& text) const {
    write_atomically(home() / name, text, false);
  }
  static std::string records(int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i) {
      text += static_cast<char>(i % 10);
      for (const int channel : {0, 50, 100}) {
        std::string plane(1024, static_cast<char>(i + channel));
        plane[1] = static_cast<char>(plane[1] + 1);
        text += plane;
      }
    }
    return text;
  }
  PreparedDataset prepare() const { return prepare_stored_dataset(dataset, options); }
  std::string reason() const {
    try {
      prepare();
    } catch (const std::exception& error) {
      EXPECT_FALSE(std::filesystem::exists(folder / "cache" / "datasets"));
      return error.what();
    }
    return "prepared";
  }
};

TEST(Cifar10, RefusesASparseFileBeforeItIsSummed) {
  for (const char* name : {"data_batch_5.bin", "test_batch.bin", "batches.meta.txt"}) {
    const LittleCifar cifar;
    std::filesystem::resize_file(cifar.home() / name, std::uintmax_t{1} << 40);
    EXPECT_THAT(cifar.reason(), HasSubstr("is too long: it has 1099511627776 bytes")) << name;
  }
}

TEST(Cifar10, is_read_as_the_publisher_lays_it_out) {
  const LittleCifar cifar;
  const PreparedDataset prepared = cifar.prepare();
  const Manifest& manifest = prepared.manifest;
  EXPECT_EQ(prepared.provenance.folder, cifar.folder / "data" / "cifar10");
  EXPECT_EQ(manifest.sample_shape, (Shape{3, 32, 32}));
  EXPECT_EQ(manifest.splits.at("train").count, 12);
  EXPECT_EQ(manifest.splits.at("validation").first, 12);
  EXPECT_EQ(manifest.splits.at("test").count, 4);
  const MappedNpy inputs(manifest.splits.at("train").inputs);
  EXPECT_EQ(inputs.type(), (TensorType{DType::u8, {15, 3, 32, 32}}));
  for (const int sample : {0, 7, 14})
    for (const int channel : {0, 1, 2}) {
      const std::size_t at = static_cast<std::size_t>(sample * 3 + channel) * 1024;
      EXPECT_EQ(inputs.as<std::uint8_t>()[at], sample + 50 * channel);
      EXPECT_EQ(inputs.as<std::uint8_t>()[at + 1], sample + 50 * channel + 1);
    }
  EXPECT_EQ(MappedNpy(manifest.splits.at("test").labels).as<std::int32_t>()[3], 8);
  EXPECT_THAT(manifest.normalisation.shift, testing::ElementsAre(-0.4914f, -0.4822f, -0.4465f));
}

TEST(Cifar10, is_found_without_the_folder_of_the_archive_too) {
  const LittleCifar cifar;
  const std::filesystem::path home = cifar.folder / "data" / "cifar10";
  std::filesystem::rename(cifar.home(), cifar.folder / "moved");
  std::filesystem::remove(home);
  std::filesystem::rename(cifar.folder / "moved", home);
  EXPECT_EQ(cifar.prepare().manifest.splits.at("train").count, 12);
  std::filesystem::remove(home / "data_batch_3.bin");
  EXPECT_THROW(cifar.prepare(), DatasetMissing);
}

TEST(Cifar10, refuses_files_that_are_damaged_and_names_them) {
  LittleCifar cut;
  cut.write("data_batch_2.bin", LittleCifar::records(0, 3).substr(0, 9000));
  EXPECT_THAT(
      cut.reason(),
      HasSubstr("data_batch_2.bin: is truncated: 3 samples of 3073 bytes are 9219 bytes, but it has 9000"));
  LittleCifar more;
  more.write("test_batch.bin", LittleCifar::records(0, 5));
  EXPECT_THAT(more.reason(), HasSubstr("test_batch.bin: is too long"));
  LittleCifar label;
  std::string text = LittleCifar::records(0, 3);
  text[3073] = 10;
  label.write("data_batch_5.bin", text);
  EXPECT_THAT(label.reason(), HasSubstr("data_batch_5.bin: sample 1 (byte 3073) has label 10"));
  LittleCifar names;
  names.write("batches.meta.txt", "airplane\nautomobile\n");
  EXPECT_THAT(names.reason(), HasSubstr("names 2 classes"));
  names.write("batches.meta.txt", "air\x01plane\n");
  EXPECT_THAT(names.reason(), HasSubstr("line 1 is not the name"));
}

}  // namespace
}  // namespace assay

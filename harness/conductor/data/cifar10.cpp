#include "harness/conductor/data/sample_files.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"

namespace assay {
namespace {

constexpr std::size_t record = 1 + cifar10_image_bytes;
constexpr std::int64_t batches = 5;
constexpr std::size_t max_name_bytes = 64;
constexpr std::uint64_t max_names_bytes = 1 << 16;

void require_length(const std::filesystem::path& path, std::size_t bytes, std::int64_t samples) {
  const std::size_t wanted = static_cast<std::size_t>(samples) * record;
  if (bytes != wanted) {
    const MappedFile content(path);
    if (const std::string kind = kind_of_content(content.bytes()); !kind.empty())
      throw IoError("cifar10", path, "is not a file of the set: " + kind);
    throw IoError("cifar10", path,
                  fmt::format("is {}: {} samples of {} bytes are {} bytes, but it has {}",
                              bytes < wanted ? "truncated" : "too long", samples, record, wanted, bytes));
  }
}

LoadedArrays read_files(std::span<const std::filesystem::path> files, std::int64_t samples) {
  LoadedArrays arrays;
  const auto each = samples / static_cast<std::int64_t>(files.size());
  for (const std::filesystem::path& file : files)
    parse_cifar10(MappedFile(file).bytes(), file, each, arrays.inputs, arrays.labels);
  arrays.type = {DType::u8, {static_cast<std::int64_t>(arrays.labels.size()), 3, 32, 32}};
  return arrays;
}

class Cifar10Format : public DatasetFormat {
 public:
  std::string_view name() const override { return "cifar10"; }
  std::string_view wanted() const override {
    return "data_batch_1.bin to data_batch_5.bin, test_batch.bin and batches.meta.txt, in the folder or in its "
           "subfolder cifar-10-batches-bin,";
  }

  std::vector<std::filesystem::path> find(const std::filesystem::path& folder) const override {
    for (const std::filesystem::path& place : {folder / "cifar-10-batches-bin", folder}) {
      std::vector<std::filesystem::path> files;
      for (std::int64_t i = 1; i <= batches; ++i)
        files.push_back(place / fmt::format("data_batch_{}.bin", i));
      files.push_back(place / "test_batch.bin");
      files.push_back(place / "batches.meta.txt");
      std::error_code ignored;
      bool whole = true;
      for (const auto& file : files) whole = whole && std::filesystem::is_regular_file(file, ignored);
      if (whole) return files;
    }
    return {};
  }

  void check_sizes(const Dataset& dataset, std::span<const std::filesystem::path> files) const override {
    const auto bytes = [](std::int64_t samples) { return static_cast<std::uint64_t>(samples) * record; };
    const auto require = [&](const std::filesystem::path& file, std::int64_t samples) {
      reject_larger("cifar10", file, bytes(samples));
      std::error_code error;
      if (const std::uintmax_t found = std::filesystem::file_size(file, error); !error)
        require_length(file, found, samples);
    };
    for (const auto& file : files.first(batches))
      require(file, (dataset.train + dataset.validation) / batches);
    require(files[5], dataset.test);
    reject_larger("cifar10", files[6], max_names_bytes);
  }

  LoadedDataset read(const Dataset& dataset, std::span<const std::filesystem::path> files) const override {
    const std::string names = read_text(files[6], max_names_bytes);
    parse_cifar10_names(names, files[6]);
    LoadedDataset loaded;
    LoadedArrays train = read_files(files.first(batches), dataset.train + dataset.validation);
    loaded.set_splits(std::move(train), dataset.validation,
                      read_files(files.subspan(batches, 1), dataset.test));
    loaded.sample_shape = dataset.sample_shape;
    loaded.classes = cifar10_classes;
    // Subtracts the mean of each channel over the training images, and does not divide by the deviation, as
    // in the Keras example of ResNet.
    loaded.scale = {1.0f / 255, 1.0f / 255, 1.0f / 255};
    loaded.shift = {-0.4914f, -0.4822f, -0.4465f};
    return loaded;
  }
};

}  // namespace

void parse_cifar10(std::span<const std::byte> bytes, const std::filesystem::path& path, std::int64_t samples,
                   std::vector<std::byte>& images, std::vector<std::int32_t>& labels) {
  require_length(path, bytes.size(), samples);
  images.reserve(images.size() + bytes.size());
  for (std::int64_t i = 0; i < samples; ++i, bytes = bytes.subspan(record)) {
    const auto label = std::to_integer<std::int32_t>(bytes[0]);
    if (label >= cifar10_classes)
      throw IoError("cifar10", path,
                    fmt::format("sample {} (byte {}) has label {}, but there are {} classes", i,
                                static_cast<std::size_t>(i) * record, label, cifar10_classes));
    labels.push_back(label);
    images.insert(images.end(), bytes.begin() + 1, bytes.begin() + record);
  }
}

std::vector<std::string_view> parse_cifar10_names(std::string_view text, const std::filesystem::path& path) {
  std::vector<std::string_view> names;
  if (text.starts_with(utf8_mark)) text.remove_prefix(utf8_mark.size());
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view name = text.substr(0, end);
    if (name.ends_with('\r')) name.remove_suffix(1);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (name.empty() && names.size() == cifar10_classes) continue;
    const auto is_name = [](char c) { return c > ' ' && c < '\x7f'; };
    if (name.empty() || name.size() > max_name_bytes || !std::all_of(name.begin(), name.end(), is_name))
      throw IoError("cifar10", path, fmt::format("line {} is not the name of a class", line));
    names.push_back(name);
  }
  if (names.size() != cifar10_classes)
    throw IoError("cifar10", path, fmt::format("names {} classes, not {}", names.size(), cifar10_classes));
  return names;
}

const DatasetFormat& cifar10_format() {
  static const Cifar10Format format;
  return format;
}

}  // namespace assay

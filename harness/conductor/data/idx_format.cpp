// MNIST and its relatives: four IDX files, each with or without ".gz" or with "." for the second "-".
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/sample_files.hpp"
#include "harness/core/error.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder, const std::string& stem,
                                               const std::string& kind) {
  for (const char* joint : {"-", "."})
    for (const char* suffix : {"", ".gz"}) {
      std::filesystem::path path = folder / (stem + joint + kind + suffix);
      std::error_code ignored;
      if (std::filesystem::is_regular_file(path, ignored)) return path;
    }
  return std::nullopt;
}

// Maximum bytes of a file with that many elements, including its header and the overhead of gzip.
std::uint64_t max_file_bytes(std::int64_t elements) {
  constexpr std::uint64_t around = 64 << 10;
  return static_cast<std::uint64_t>(elements) + static_cast<std::uint64_t>(elements) / 1000 + around;
}

// Each throws IoError if the file of a pair has another number of samples or another shape.
void check_image_shape(const Shape& found, const std::filesystem::path& path, const Dataset& dataset,
                       std::int64_t samples) {
  const Shape wanted = {samples, dataset.sample_shape[1], dataset.sample_shape[2]};
  if (found != wanted)
    throw IoError(
        "idx", path,
        fmt::format("contains {}, but {} has {}", to_string(found), dataset.name, to_string(wanted)));
}
void check_label_shape(const Shape& found, const std::filesystem::path& path, std::int64_t samples) {
  if (found != Shape{samples})
    throw IoError("idx", path,
                  fmt::format("contains {} labels for {}", to_string(found), plural(samples, "image")));
}

LoadedArrays read_pair(const std::filesystem::path& images_path, const std::filesystem::path& labels_path,
                       const Dataset& dataset, std::int64_t samples) {
  IdxArray images = read_idx(images_path, max_file_bytes(samples * element_count(dataset.sample_shape)));
  check_image_shape(images.shape, images_path, dataset, samples);
  const IdxArray labels = read_idx(labels_path, max_file_bytes(samples));
  check_label_shape(labels.shape, labels_path, samples);
  LoadedArrays arrays{
      {DType::u8, {samples, 1, images.shape[1], images.shape[2]}}, std::move(images.bytes), {}};
  for (const std::byte byte : labels.bytes) {
    const auto label = std::to_integer<std::int32_t>(byte);
    if (label >= dataset.classes)
      throw IoError("idx", labels_path,
                    fmt::format("label {} is {}, but {} has {} classes", arrays.labels.size(), label,
                                dataset.name, dataset.classes));
    arrays.labels.push_back(label);
  }
  return arrays;
}

class IdxFormat : public DatasetFormat {
 public:
  std::string_view name() const override { return "idx"; }
  std::string_view wanted() const override { return "its four IDX files"; }

  std::vector<std::filesystem::path> find(const std::filesystem::path& folder) const override {
    std::vector<std::filesystem::path> files;
    for (const char* stem : {"train", "t10k"})
      for (const auto& [part, kind] : {std::pair{"-images", "idx3-ubyte"}, {"-labels", "idx1-ubyte"}}) {
        auto file = find_file(folder, std::string(stem) + part, kind);
        if (!file) return {};
        files.push_back(std::move(*file));
      }
    return files;
  }

  void check_sizes(const Dataset& dataset, std::span<const std::filesystem::path> files) const override {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::int64_t samples = i < 2 ? dataset.train + dataset.validation : dataset.test;
      reject_larger("idx", files[i],
                    max_file_bytes(i % 2 == 0 ? samples * element_count(dataset.sample_shape) : samples));
      const Shape shape = read_idx_shape(files[i]);
      if (i % 2 == 0)
        check_image_shape(shape, files[i], dataset, samples);
      else
        check_label_shape(shape, files[i], samples);
    }
  }

  LoadedDataset read(const Dataset& dataset, std::span<const std::filesystem::path> files) const override {
    LoadedDataset loaded;
    LoadedArrays train = read_pair(files[0], files[1], dataset, dataset.train + dataset.validation);
    loaded.set_splits(std::move(train), dataset.validation,
                      read_pair(files[2], files[3], dataset, dataset.test));
    loaded.sample_shape = dataset.sample_shape;
    loaded.classes = dataset.classes;
    loaded.scale = {1.0f / 255};
    return loaded;
  }
};

}  // namespace

const DatasetFormat& idx_format() {
  static const IdxFormat format;
  return format;
}

}  // namespace assay

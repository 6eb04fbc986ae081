// A publisher's format: the files of a set, and how they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/tensor.hpp"

namespace assay {

struct Dataset;
struct DatasetPlace;

// Samples in memory. inputs: u8, f32 or i32 (N, sample...), row-major.
struct LoadedArrays {
  TensorType type;
  std::vector<std::byte> inputs;
  std::vector<std::int32_t> labels;  // (N), or (N, positions)
  std::int64_t positions = 0;        // labels of a sample; 0: one
  // Instead of `inputs`, images that are decoded when they are read; relative to `folder`.
  std::filesystem::path folder = {};
  std::vector<std::filesystem::path> files = {};

  std::int64_t samples() const {
    return static_cast<std::int64_t>(labels.size()) / (positions > 0 ? positions : 1);
  }

  template <typename T>
  void set_inputs(TensorType of, std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    type = std::move(of);
    inputs.assign(bytes.begin(), bytes.end());
  }
};

// Samples [first, first + count) of the arrays of that name.
struct LoadedSplit {
  std::string arrays;
  std::int64_t first = 0, count = 0;
};

// A set that was read, with every field checked.
struct LoadedDataset {
  std::map<std::string, LoadedArrays> arrays;
  std::map<std::string, LoadedSplit> splits;  // "train", "validation", "test"
  Shape sample_shape;
  std::int64_t classes = 0;
  std::int64_t vocabulary = 0;  // above 0: inputs are i32 tokens below it, fed unchanged
  // x = raw * scale[c] + shift[c]; one value per channel, or one for all.
  std::vector<float> scale = {1}, shift = {0};

  // Sets the usual three: `train` without its last `validation` samples, these samples, and `test`.
  void set_splits(LoadedArrays train, std::int64_t validation, LoadedArrays test);
};

// The properties of samples that a network depends on.
struct SampleKind {
  Shape sample_shape;  // empty: that of the workload
  std::int64_t classes = 0;
  std::int64_t positions = 0;  // labels of a sample that are not next tokens; 0: one
};

// A file that the user may name: what it is called in a folder, and how its name must end.
struct NamedFile {
  std::string_view name;
  std::string_view end;
};

// Stateless; there is one object per format, which exists for the whole program.
class DatasetFormat {
 public:
  virtual ~DatasetFormat() = default;

  // "idx"
  virtual std::string_view name() const = 0;
  // Describes the files: "its four IDX files".
  virtual std::string_view wanted() const = 0;
  // The files of the set in `folder`, in a fixed order; empty if one is missing.
  virtual std::vector<std::filesystem::path> find(const std::filesystem::path& folder) const = 0;
  // Whether find() would find them; quick even with many files.
  virtual bool here(const std::filesystem::path& folder) const { return !find(folder).empty(); }
  // Whether workers read its files themselves, because a copy in the cache would be too large.
  virtual bool reads_in_place() const { return false; }
  // The files of find(), if the user may name others in their places.
  virtual std::vector<NamedFile> named() const { return {}; }
  // Whether its images are scaled to the requested size.
  virtual bool any_image_size() const { return false; }
  // Whether its texts are cut into sequences of the requested length.
  virtual bool any_sequence_length() const { return false; }
  // For a set whose samples and classes are known only from its files (Dataset::classes is 0). Throws
  // IoError.
  virtual SampleKind describe(const DatasetPlace& place) const;
  // Checks lengths and headers before any content is read or summed, to reject files at once that are too
  // large for the set (a sparse file of terabytes). Throws IoError naming the file.
  virtual void check_sizes(const Dataset& dataset, std::span<const std::filesystem::path> files) const;
  // `files`: the result of find(). Throws IoError naming the file.
  virtual LoadedDataset read(const Dataset& dataset, std::span<const std::filesystem::path> files) const = 0;
};

// Throws IoError if the file has more than `max_bytes` bytes.
void reject_larger(std::string_view format, const std::filesystem::path& file, std::uint64_t max_bytes);

const DatasetFormat& idx_format();
const DatasetFormat& cifar10_format();
const DatasetFormat& aclimdb_format();
const DatasetFormat& own_arrays_format();
const DatasetFormat& jpeg_folder_format();
const DatasetFormat& text_format();

}  // namespace assay

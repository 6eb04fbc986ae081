// A publisher's format: which files make a set, and how they are read.
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

// Samples in memory. inputs: u8, f32 or i32 (N, sample...), row-major.
struct LoadedArrays {
  TensorType type;
  std::vector<std::byte> inputs;
  std::vector<std::int32_t> labels;
  // Images that are decoded when they are read, instead of `inputs`: relative to `folder`.
  std::filesystem::path folder = {};
  std::vector<std::filesystem::path> files = {};

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

// A set as it was read, every field checked.
struct LoadedDataset {
  std::map<std::string, LoadedArrays> arrays;
  std::map<std::string, LoadedSplit> splits;  // "train", "validation", "test"
  Shape sample_shape;
  std::int64_t classes = 0;
  std::int64_t vocabulary = 0;  // above 0: inputs are i32 tokens below it, fed as they are
  // x = raw * scale[c] + shift[c]; one value a channel, or one for all.
  std::vector<float> scale = {1}, shift = {0};

  // The usual three: `train` with the last `validation` samples apart, and `test`.
  void set_splits(LoadedArrays train, std::int64_t validation, LoadedArrays test);
};

// What a network has to be built for.
struct SampleKind {
  Shape sample_shape;  // empty: as the workload has it
  std::int64_t classes = 0;
};

// Const and without state: one of each format, alive for the whole program.
class DatasetFormat {
 public:
  virtual ~DatasetFormat() = default;

  // "idx"
  virtual std::string_view name() const = 0;
  // "its four IDX files": what is looked for.
  virtual std::string_view wanted() const = 0;
  // The files of the set that lies in `folder`, in a fixed order; empty where one is missing.
  virtual std::vector<std::filesystem::path> find(const std::filesystem::path& folder) const = 0;
  // Whether find() would find them; quick, also where there are many.
  virtual bool here(const std::filesystem::path& folder) const { return !find(folder).empty(); }
  // Whether the set's checksum is of its files' contents, or, where they are too many, of names and lengths.
  virtual bool sums_contents() const { return true; }
  // Whether its images are brought to whatever size is asked for.
  virtual bool any_image_size() const { return false; }
  // Of a set whose samples and classes the files alone say (Dataset::classes is 0). Throws IoError.
  virtual SampleKind describe(const std::filesystem::path& folder) const;
  // Looks at lengths and headers before any content is read or summed: refuses, at once, files that are too large to be
  // those of the set (a sparse file of terabytes). Throws IoError naming the file.
  virtual void check_sizes(const Dataset& dataset, std::span<const std::filesystem::path> files) const;
  // `files` as find() gave them. Throws IoError naming the file.
  virtual LoadedDataset read(const Dataset& dataset, std::span<const std::filesystem::path> files) const = 0;
};

// Throws IoError when the file has more than `most` bytes.
void refuse_larger(std::string_view format, const std::filesystem::path& file, std::uint64_t most);

const DatasetFormat& idx_format();
const DatasetFormat& cifar10_format();
const DatasetFormat& aclimdb_format();
const DatasetFormat& own_arrays_format();
const DatasetFormat& jpeg_folder_format();

}  // namespace assay

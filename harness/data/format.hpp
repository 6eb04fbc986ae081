// A publisher's format: which files make a set, and how they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/graph/tensor.hpp"

namespace assay {

struct Dataset;

// Samples in memory. inputs: u8, f32 or i32 (N, sample...), row-major.
struct LoadedArrays {
  TensorType type;
  std::vector<std::byte> inputs;
  std::vector<std::int32_t> labels;
};

// A set as it was read, every field checked.
struct LoadedDataset {
  LoadedArrays train;           // the validation samples behind the training samples
  std::int64_t validation = 0;  // how many of `train` they are
  LoadedArrays test;
  Shape sample_shape;
  std::int64_t classes = 0;
  std::int64_t vocabulary = 0;  // above 0: inputs are i32 tokens below it, fed as they are
  // x = raw * scale[c] + shift[c]; one value a channel, or one for all.
  std::vector<float> scale = {1}, shift = {0};
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
  // `files` as find() gave them. Throws IoError naming the file.
  virtual LoadedDataset read(const Dataset& dataset, std::span<const std::filesystem::path> files) const = 0;
};

const DatasetFormat& idx_format();
const DatasetFormat& cifar10_format();

}  // namespace assay

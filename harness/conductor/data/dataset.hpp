// The data sets that are known: what they are called, where they lie and what is in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.hpp"
#include "harness/core/tensor.hpp"

namespace assay {

// Known and not here. what(): where it was looked for and the command that brings it.
class DatasetMissing : public Error {
 public:
  using Error::Error;
};

class DatasetFormat;

struct Dataset {
  std::string name;
  std::string description;
  Shape sample_shape;        // (C, H, W); (T) where samples are texts
  std::int64_t classes = 0;  // 0: this and what follows is as the files say (DatasetFormat::describe)
  std::int64_t train = 0, validation = 0, test = 0;  // samples
  std::string remedy;                                // how to get it; empty for what is made here
  const DatasetFormat* format = nullptr;             // of its files; null for what is made here
  std::int64_t vocabulary = 0;                       // above 0: samples are i32 tokens below it

  bool made_here() const { return format == nullptr; }
  // Whether images come in any size that is asked for: made here, or decoded and scaled.
  bool any_image_size() const;
};

// In the order of dataset.cpp.
std::span<const Dataset> datasets();
// Throws DataError naming the nearest and all that there are.
const Dataset& find_dataset(std::string_view name);

// `given` (the --data folders, in order), $ASSAY_DATA (folders with colons), ~/.local/share/datasets,
// /usr/local/share/datasets, /usr/share/datasets.
std::vector<std::filesystem::path> dataset_folders(std::span<const std::filesystem::path> given);

// Where the files of a set lie.
struct DatasetFiles {
  std::filesystem::path folder;              // DIR/<name>
  std::vector<std::filesystem::path> files;  // all of them, in the order of the format
};
// Looks in DIR/<name>/ for each folder in turn. `looked_in` (may be null) gets every folder that was tried.
std::optional<DatasetFiles> find_dataset_files(const Dataset& dataset,
                                               std::span<const std::filesystem::path> folders,
                                               std::vector<std::filesystem::path>* looked_in = nullptr);

// "here", with the folder, or "missing", with the remedy: what `assay list datasets` shows.
struct DatasetPlace {
  bool here = false;
  std::string folder;  // empty when missing, and for synthetic sets
  std::string remedy;
};
DatasetPlace locate_dataset(const Dataset& dataset, std::span<const std::filesystem::path> folders);

}  // namespace assay

// The known data sets: their names, places and contents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.hpp"
#include "harness/core/tensor.hpp"

namespace assay {

// A known data set is not on this machine. what(): the searched folders and the command that gets it.
class DatasetMissing : public Error {
 public:
  using Error::Error;
};

class DatasetFormat;

struct Dataset {
  std::string name;
  std::string description;
  Shape sample_shape;        // (C, H, W); (T) for texts
  std::int64_t classes = 0;  // 0: read this and the next fields from the files (DatasetFormat::describe)
  std::int64_t train = 0, validation = 0, test = 0;  // samples
  std::string remedy;                                // how to get it; empty for synthetic sets
  const DatasetFormat* format = nullptr;             // of its files; null for synthetic sets
  std::int64_t vocabulary = 0;                       // above 0: samples are i32 tokens below it
  bool next_token = false;  // each position of a sample has a label: the next token; classes are tokens
  std::filesystem::path other_place = {};  // where torchvision puts it: "MNIST/raw"
  std::int64_t positions = 0;              // labels of a sample that are not next tokens; 0: one

  bool made_here() const { return format == nullptr; }
  // Whether images can have any requested size, because they are synthetic, or decoded and scaled.
  bool any_image_size() const;
  // Whether texts can have any requested length, because they are synthetic, or cut out of a longer text.
  bool any_sequence_length() const;
};

// In the order of dataset.cpp.
std::span<const Dataset> datasets();
// Throws DataError with the nearest name and all names.
const Dataset& find_dataset(std::string_view name);

// `given` (the folders of --data, or named files, in order), $ASSAY_DATA (folders with colons), ~/.local/share/datasets,
// /usr/local/share/datasets, /usr/share/datasets.
std::vector<std::filesystem::path> dataset_folders(std::span<const std::filesystem::path> given);

// The files of a set.
struct DatasetFiles {
  std::filesystem::path folder;              // DIR/<name>, or that of the first named file
  std::vector<std::filesystem::path> files;  // all of them, in the order of the format
  std::vector<std::string> names = {};       // what a folder would call them, if the user named them
};
// The named files, if each that the format wants is in `folders`; else searches DIR/<name>/, then DIR/<other_place>/, for
// each folder in order. `looked_in` (may be null) gets all searched folders.
std::optional<DatasetFiles> find_dataset_files(const Dataset& dataset,
                                               std::span<const std::filesystem::path> folders,
                                               std::vector<std::filesystem::path>* looked_in = nullptr);

// The files among `given` that none of these data sets reads.
std::vector<std::filesystem::path> unread_files(std::span<const std::filesystem::path> given,
                                                const std::set<std::string>& names);

// Here with its folder, or missing with its remedy.
struct DatasetPlace {
  bool here = false;
  std::filesystem::path folder = {};              // empty if missing, and for synthetic sets
  std::vector<std::filesystem::path> named = {};  // its files, if they were named themselves
  std::string remedy = {};

  // File i of its format, which a folder of the set has by this name.
  std::filesystem::path file(std::size_t i, std::string_view name) const {
    return named.empty() ? folder / name : named.at(i);
  }
  // For people: the folder, or the named files.
  std::string text() const;
};
DatasetPlace locate_dataset(const Dataset& dataset, std::span<const std::filesystem::path> folders);

}  // namespace assay

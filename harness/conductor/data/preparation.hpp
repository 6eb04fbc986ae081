// From the publisher's files to mapped .npy arrays in the cache, once.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/batch/manifest.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/provenance.hpp"
#include "harness/core/paths.hpp"

namespace assay {

struct PreparedDataset {
  Manifest manifest;      // paths into the cache
  Provenance provenance;  // of the publisher's files; of a synthetic set its description alone

  // For the report. `name`: as --dataset names it.
  DatasetRecord record(const std::string& name) const;
};

// Where its files were looked for and the command that brings them; empty where they are here or none are needed.
std::string why_missing(const Dataset& dataset, std::span<const std::filesystem::path> folders);

struct PrepareOptions {
  std::vector<std::filesystem::path> folders = dataset_folders({});
  std::filesystem::path cache = cache_folder();
  // What a synthetic set should look like, and how large JPEG files become; another set is as it is. Empty
  // and 0: as fashion-mnist.
  Shape sample_shape;
  std::int64_t classes = 0;
  std::int64_t vocabulary = 0;  // above 0: texts of so many words instead of images
};

// Reads, checks and converts the set unless the cache has it. A cached set is keyed by the checksum of its
// source files; it appears whole, also when two processes prepare it at once. Throws DataError
// (no such set), DatasetMissing (not found, with the remedy) or IoError (damaged files, cache not writable).
// About 1 s the first time, 0.1 s later.
PreparedDataset prepare_dataset(std::string_view name, const PrepareOptions& options);

// The same for one set of a publisher's files, whether or not it is among datasets().
PreparedDataset prepare_stored_dataset(const Dataset& dataset, const PrepareOptions& options);

}  // namespace assay

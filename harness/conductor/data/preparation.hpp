// Converts the publisher's files to mapped .npy arrays in the cache, once.
#pragma once

#include <filesystem>
#include <functional>
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
  Provenance provenance;  // of the publisher's files; only a description for a synthetic set
  FileStamps in_place{};  // of files that workers read themselves; none if the cache has the samples

  // The record for the report. `name`: the value of --dataset.
  DatasetRecord record(const std::string& name) const;
};

// The searched folders and the command that gets the files; empty if the files are present or none are
// needed.
std::string why_missing(const Dataset& dataset, std::span<const std::filesystem::path> folders);

// If all training samples are of one class; empty for other sets. Throws as SourceOpener::open() does.
std::string why_nothing_is_learned(const Manifest& manifest);

struct PrepareOptions {
  std::vector<std::filesystem::path> folders = dataset_folders({});
  std::filesystem::path cache = cache_folder();
  // The shape of a synthetic set, and the size of decoded JPEG files; other sets ignore it. Empty and 0: as
  // fashion-mnist.
  Shape sample_shape;
  std::int64_t classes = 0;
  std::int64_t vocabulary = 0;  // above 0: texts with a vocabulary of that size instead of images
  std::int64_t padding = -1;    // the token that follows a short text; -1: padding is in front
  bool next_token = false;      // a label for each position: the next token
  std::int64_t positions = 0;   // labels of a synthetic sample that are not next tokens; 0: one
  std::function<void(const std::string&)> note = nullptr;  // gets a line before something takes long
};

// Reads, checks and converts the set unless it is in the cache. The key is the checksum of its source files, and their
// folder and times of change if they are read in place; the cached set is complete or absent, even if two
// processes prepare it at once. Throws DataError (unknown set), DatasetMissing (not found, with the remedy) or
// IoError (damaged files, cache not writable). About 1 s the first time, 0.1 s later.
PreparedDataset prepare_dataset(std::string_view name, const PrepareOptions& options);

// The same for a set of a publisher's files, which need not be in datasets().
PreparedDataset prepare_stored_dataset(const Dataset& dataset, const PrepareOptions& options);

}  // namespace assay

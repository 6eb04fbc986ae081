// Where the files of a data set lie and what is in them, for `assay list datasets` and the report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "harness/conductor/data/dataset.hpp"

namespace assay {

struct FileDigest {
  std::string name;  // relative to the set's folder
  std::int64_t bytes = 0;
  std::string sha256;
};

struct Provenance {
  std::filesystem::path folder;  // of the publisher's files
  std::int64_t bytes = 0;
  std::int64_t file_count = 0;
  std::vector<FileDigest> files;  // empty where they are more than `most_named_files`
  // What `sha256sum FILES | sha256sum` prints in the folder, the files in the order of the format; or of
  // another text where checksum_of says so. Empty when it was to be known already and was not.
  std::string checksum;
  std::string checksum_of;  // "contents"; of JPEG folders "names and lengths"
};

constexpr std::size_t most_named_files = 64;

// Digests are kept in the cache under path, length, inode and times of change, so that only files that are
// new or were changed are read. `compute` false: none is read. Throws IoError.
Provenance provenance_of(const Dataset& dataset, const DatasetFiles& files,
                         const std::filesystem::path& cache, bool compute = true);

}  // namespace assay

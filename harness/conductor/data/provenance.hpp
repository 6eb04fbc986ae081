// Examines the files of a data set for `assay list datasets` and the report.
#pragma once

#include <filesystem>

#include "harness/conductor/data/dataset.hpp"
#include "harness/report/run_record.hpp"

namespace assay {

constexpr std::size_t max_named_files = 64;  // Provenance::files is empty if there are more

// Keeps digests in the cache by path, length, inode and times of change, so that only new or changed files
// are read. `compute` false: reads no file, and gives a checksum only if all digests are known. Throws
// IoError.
Provenance provenance_of(const Dataset& dataset, const DatasetFiles& files,
                         const std::filesystem::path& cache, bool compute = true);

// A digest that changes if a file is changed or replaced, or if the folder is another one, without reading the
// files. Throws IoError.
std::string stamp_of(const DatasetFiles& files);

}  // namespace assay

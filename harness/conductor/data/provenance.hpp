// Looks at the files of a data set, for `assay list datasets` and the report.
#pragma once

#include <filesystem>

#include "harness/conductor/data/dataset.hpp"
#include "harness/report/run_record.hpp"

namespace assay {

constexpr std::size_t most_named_files = 64;  // Provenance::files is empty where there are more

// Digests are kept in the cache under path, length, inode and times of change, so that only files that are
// new or were changed are read. `compute` false: none is read, and there is no checksum unless all are known.
// Throws IoError.
Provenance provenance_of(const Dataset& dataset, const DatasetFiles& files,
                         const std::filesystem::path& cache, bool compute = true);

}  // namespace assay

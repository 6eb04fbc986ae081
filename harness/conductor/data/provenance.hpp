// Examines the files of a data set for `assay list datasets` and the report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "harness/conductor/data/dataset.hpp"
#include "harness/report/run_record.hpp"

namespace assay {

constexpr std::size_t max_named_files = 64;  // Provenance::files is empty if there are more

// Files as they look without being read: one that is changed or replaced looks different.
class FileStamps {
 public:
  FileStamps() = default;  // of no files
  // Throws IoError, also for a name that is not UTF-8.
  explicit FileStamps(const DatasetFiles& files);

  // Of the folder, and of the names and stamps of all files.
  const std::string& digest() const { return digest_; }
  std::int64_t bytes() const { return bytes_; }
  // Whether a change from now on would surely show, even where a file system only keeps seconds.
  bool settled() const { return settled_; }
  // "DIR/a/1.jpg was changed or replaced", for the first file that is not as it was; empty if all are.
  std::string change() const;

 private:
  std::filesystem::path folder_;
  std::vector<std::string> names_;
  std::vector<std::size_t> stamps_;  // hashes
  std::string digest_;
  std::int64_t bytes_ = 0;
  bool settled_ = true;
};

struct Summing {
  // If more must be read, nothing is, and there is no checksum.
  std::int64_t max_bytes = std::numeric_limits<std::int64_t>::max();
  std::function<void(const std::string&)> note = nullptr;  // gets a line before something takes long
};

// Keeps digests in the cache by path, length, inode and times of change, so that only new or changed files are read; of
// more than max_named_files files one digest of all. `stamps`: of these files. Throws IoError.
Provenance provenance_of(const DatasetFiles& files, const FileStamps& stamps,
                         const std::filesystem::path& cache, const Summing& summing = {});

}  // namespace assay

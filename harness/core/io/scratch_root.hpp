// A folder below the temporary folder: for a run's cell folders, or for a cache of one process.
#pragma once

#include <filesystem>

namespace assay {

// Makes $TMPDIR/assay-scratch-XXXXXX and removes it with its contents at the end, unless it is to be kept. While it
// lives it holds a lock on the file "lock" in it; the kernel releases that lock however the process ends. A
// later run can therefore tell folders of killed runs from folders of active runs.
class ScratchRoot {
 public:
  // A kept folder has no lock and is never swept. Throws std::system_error.
  explicit ScratchRoot(bool keep);
  ~ScratchRoot();
  ScratchRoot(const ScratchRoot&) = delete;
  ScratchRoot& operator=(const ScratchRoot&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

// Removes the folders in `temporary` that killed runs of this user left, at whatever moment they were killed, and
// returns their number. Keeps a folder with a lock that a process holds, of another user, or with contents but without a
// lock file of ours. Never throws.
int sweep_stale_scratch(const std::filesystem::path& temporary);

}  // namespace assay

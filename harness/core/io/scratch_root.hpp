// A folder below the temporary one: of a run's cell folders, or of a cache that does not outlive its process.
#pragma once

#include <filesystem>

namespace assay {

// Makes $TMPDIR/assay-XXXXXX and removes it with its contents at the end, unless it is to be kept. While it
// lives it holds a lock on the file "lock" in it; the kernel lets go of that lock whatever ends the process.
// A run that comes later therefore knows the folders of runs that were killed from those of runs that are
// under way.
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

// Removes the folders in `temporary` that killed runs of this user left, and says how many. A folder without
// a lock file of ours, with a lock that somebody holds, or of another user stays. Never throws.
int sweep_stale_scratch(const std::filesystem::path& temporary);

}  // namespace assay

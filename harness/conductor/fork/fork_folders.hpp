// The folders of one process: its cell folder and its temporary folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "harness/conductor/fork/worker_plan.hpp"

namespace assay {

// Makes both folders, and removes them with everything that a worker put there. A worker may have made entries that
// cannot be removed; then the next object with the same name uses other paths.
class ForkFolders {
 public:
  // `name`: of the cell folder below `scratch`. keep: nothing is removed, for debugging.
  ForkFolders(const std::filesystem::path& scratch, std::string_view name, bool keep);
  ~ForkFolders();
  ForkFolders(const ForkFolders&) = delete;
  ForkFolders& operator=(const ForkFolders&) = delete;

  const std::filesystem::path& cell() const { return folders_.cell; }
  const WorkerFolders& both() const { return folders_; }

 private:
  WorkerFolders folders_;
  bool keep_;
};

// Removes the files of an earlier run from the folder of a worker that stays, except its open log and its caches. Throws
// Error.
void remove_earlier(const std::filesystem::path& folder);

// The first folder that could not be removed, and why; empty if both are gone.
std::string what_is_left(const WorkerFolders& folders);

}  // namespace assay

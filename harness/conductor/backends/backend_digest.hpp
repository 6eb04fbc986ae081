// What a worker of a backend executes, as digests: forks with different ones must not share a cell.
#pragma once

#include <map>
#include <string>

#include "harness/conductor/backends/backends.hpp"

namespace assay {

struct BackendDigest {
  // SHA-256 over the names and contents of the scripts: the same on every machine that has the same files.
  std::string adapter;
  // The same over backend.json, which may name paths, and machine code: the worker's program, its interpreter, the batch
  // library.
  std::string program;
  std::map<std::string, std::string>
      files{};  // SHA-256 by name: "here/worker.py", "command/0", "batch library"
};
// The name of a file that differs; empty if there is none.
std::string changed_backend_file(const BackendDigest& before, const BackendDigest& after);

// Of the backend's folder, without hidden files and those that a build or Python makes; of assay_worker and assay_onnx, if it
// has a Python worker; and of the files that its command names. Framework and vendor's libraries are compared by their
// versions (other_library()). A file is read once for each of its stamps (size, times, inode); later calls take about 1 ms.
// Files that vanish or cannot be read are left out. Any thread.
BackendDigest digest_of(const BackendDescription& backend);

}  // namespace assay

// The report on disk while the run goes on: at any moment it is whole, valid and true.
#pragma once

#include <filesystem>

#include "harness/report/report.hpp"

namespace assay {

class Journal {
 public:
  // Empty: nothing is written. Throws IoError when no file could be written there, before anything is run.
  explicit Journal(std::filesystem::path file);

  // Replaces the file by the report as it stands. What is no regular file (a pipe, /dev/stdout) waits for
  // finish(). Throws IoError.
  void save(const Report& report);
  void finish(const Report& report);

 private:
  std::filesystem::path file_;
  bool regular_ = true;
};

}  // namespace assay

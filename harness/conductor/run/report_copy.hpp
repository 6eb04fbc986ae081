// A copy of a report that cannot be written to its own place, so that no finished fork is lost.
#pragma once

#include <filesystem>
#include <string_view>

namespace assay {

class ReportCopy {
 public:
  // Writes the copy or replaces it: report.json in a new folder assay-report-XXXXXX of the first of $TMPDIR, /tmp,
  // /var/tmp and /dev/shm that takes it. Returns its path; empty: none takes it. It outlives this object.
  std::filesystem::path keep(std::string_view text);
  // Removes the copy: the report is in its own place again.
  void drop();

 private:
  std::filesystem::path folder_;  // empty: there is no copy
};

}  // namespace assay

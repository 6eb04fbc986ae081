// A copy of a report that cannot be written to its own path, so that no finished fork is lost.
#pragma once

#include <filesystem>
#include <string_view>

namespace assay {

class ReportCopy {
 public:
  // Writes or replaces the copy: report.json in a new folder assay-report-XXXXXX in the first writable one of
  // $TMPDIR, /tmp, /var/tmp and /dev/shm. Returns its path; empty if none is writable. The copy outlives this
  // object.
  std::filesystem::path keep(std::string_view text);
  // Removes the copy: the report is at its own path again.
  void drop();

 private:
  std::filesystem::path folder_;  // empty without a copy
};

}  // namespace assay

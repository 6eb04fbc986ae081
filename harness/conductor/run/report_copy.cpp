#include "harness/conductor/run/report_copy.hpp"

#include <stdlib.h>

#include <stdexcept>
#include <string>
#include <system_error>

#include "harness/core/io/atomic_file.hpp"
#include "harness/core/paths.hpp"

namespace assay {
namespace {

bool write_copy(const std::filesystem::path& folder, std::string_view text) {
  try {
    write_atomically(folder / "report.json", text);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace

std::filesystem::path ReportCopy::keep(std::string_view text) {
  if (!folder_.empty() && write_copy(folder_, text)) return folder_ / "report.json";
  for (const std::string& parent :
       {environment_text("TMPDIR"), std::string("/tmp"), std::string("/var/tmp"), std::string("/dev/shm")}) {
    if (parent.empty()) continue;
    std::error_code ignored;
    std::string pattern = (std::filesystem::absolute(parent, ignored) / "assay-report-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) continue;
    if (write_copy(pattern, text)) {
      drop();  // removes an older copy, whose file system is full now
      folder_ = pattern;
      return folder_ / "report.json";
    }
    std::filesystem::remove_all(pattern, ignored);
  }
  return {};
}

void ReportCopy::drop() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  folder_.clear();
}

}  // namespace assay

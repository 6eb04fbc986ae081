#include "harness/conductor/run/journal.hpp"

#include "harness/core/io/atomic_file.hpp"
#include "harness/report/report_json.hpp"

namespace assay {

Journal::Journal(std::filesystem::path file) : file_(std::move(file)) {
  if (file_.empty()) return;
  require_writable(file_);
  remove_abandoned(file_);  // by a run of this report that was killed while it wrote
  std::error_code error;
  regular_ = !std::filesystem::exists(file_, error) || std::filesystem::is_regular_file(file_, error);
}

void Journal::save(const Report& report) {
  if (!file_.empty() && regular_) write_atomically(file_, report_text(report));
}

void Journal::finish(const Report& report) {
  if (!file_.empty()) write_atomically(file_, report_text(report));
}

}  // namespace assay

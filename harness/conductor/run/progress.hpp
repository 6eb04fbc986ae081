// What shows how far a run is: a line for a person, and the report on disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "harness/conductor/run/report_copy.hpp"
#include "harness/core/io/file.hpp"
#include "harness/report/report.hpp"

namespace assay {

// For a person: a line that renews itself on a terminal, plain lines elsewhere. Always on stderr.
class Progress {
 public:
  // `terminal`: the line renews itself. quiet(): says nothing.
  Progress(std::FILE* out, bool terminal) : out_(out), terminal_(terminal) {}
  static Progress on_stderr();
  static Progress quiet() { return {nullptr, false}; }

  void plan(int forks) { planned_ = forks; }
  // Counts anew, for another plan.
  void start_over() { planned_ = done_ = 0, spent_ = 0; }
  // A fork or a check begins: "lenet5/onednn/graph round 2 of 6".
  // since: when it began, where that is earlier.
  void begin(std::string what, std::optional<std::chrono::steady_clock::time_point> since = {});
  void phase(std::string_view phase);
  void steps(std::int64_t done, std::int64_t planned);
  // It ended: "ok, 2.13 ms a step". `good`: a terminal shows only that one more is done. `counts`: it was one of the
  // planned forks.
  void end(std::string_view result, bool good, bool counts);
  void note(std::string_view line);
  // Wipes the renewed line.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(bool now);
  std::string time_left() const;

  std::FILE* out_;
  bool terminal_;
  int planned_ = 0, done_ = 0;
  std::string what_, phase_;
  double share_ = 0;  // of the fork in hand
  Clock::time_point start_ = Clock::now(), begun_{}, drawn_{};
  double spent_ = 0;  // seconds in forks that count
};

// The report on disk while the run goes on: at any moment it is whole, valid and true.
class Journal {
 public:
  // Empty: nothing is written. Throws IoError when no file could be written there, before anything is run, and when
  // another run writes this report: "<file>.lock" says so while one does. A named pipe must have its reader within 5 s,
  // and stays open.
  explicit Journal(std::filesystem::path file);
  ~Journal();

  // Replaces the file by the report as it stands. What is no regular file (a pipe, /dev/stdout) waits for
  // finish(). If the report cannot be written (a disk that is full), a copy is kept elsewhere, and both throw Error
  // with the place of the copy. A later save() that succeeds removes it.
  void save(const Report& report);
  void finish(const Report& report);

 private:
  void write(std::string_view text);

  std::filesystem::path file_;
  bool regular_ = true;
  Descriptor lock_;  // of a regular file
  Descriptor pipe_;  // of a named pipe
  ReportCopy copy_;
};

}  // namespace assay

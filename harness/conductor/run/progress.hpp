// Shows the progress of a run: a line for the user, and the report on disk.
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

// For the user: one updated line on a terminal, plain lines elsewhere. Always on stderr.
class Progress {
 public:
  // `terminal`: updates one line in place. quiet(): prints nothing.
  Progress(std::FILE* out, bool terminal) : out_(out), terminal_(terminal) {}
  static Progress on_stderr();
  static Progress quiet() { return {nullptr, false}; }

  void plan(int forks) { planned_ = forks; }
  // Resets the counts for another plan.
  void start_over() { planned_ = done_ = 0, spent_ = 0, learnt_.clear(); }
  // A fork or a check begins: "lenet5/onednn/graph round 2 of 6".
  // since: when it began, if earlier than now.
  void begin(std::string what, std::optional<std::chrono::steady_clock::time_point> since = {});
  void phase(std::string_view phase);
  void steps(std::int64_t done, std::int64_t planned);
  // The fork or check ended: "ok, 2.13 ms a step". `good`: a terminal shows only the new count. `counts`: it
  // was one of the planned forks.
  void end(std::string_view result, bool good, bool counts);
  void note(std::string_view line);
  // What the forks have shown up to now: part of the updated line of a terminal, a line elsewhere.
  void learnt(std::string_view text);
  // Erases the updated line.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(bool now);
  std::string time_left() const;

  std::FILE* out_;
  bool terminal_;
  int planned_ = 0, done_ = 0;
  std::string what_, phase_, learnt_;
  double share_ = 0;  // done part of the current fork
  Clock::time_point start_ = Clock::now(), begun_{}, drawn_{};
  double spent_ = 0;  // seconds in forks that count
};

// The report on disk while the run goes on: it is complete, valid and correct at any time.
class Journal {
 public:
  // An empty path writes nothing. Throws IoError, before anything is run, if the file cannot be written or
  // another run writes this report, under this or another name of the file (symbolic and hard links): it holds
  // "<file>.lock", where <file> is the end of the links, and locks on the file before and after it was written. A named pipe must have
  // its reader within 5 s, and stays open.
  explicit Journal(std::filesystem::path file);
  ~Journal();

  // Replaces the file with the current report. If it is not a regular file (a pipe, /dev/stdout), only
  // finish() writes it. If the report cannot be written (a full disk), keeps a copy elsewhere, and both
  // functions throw Error with the path of the copy. A later save() that succeeds removes the copy.
  void save(const Report& report);
  void finish(const Report& report);

 private:
  void write(std::string_view text);
  void lock_written();

  std::filesystem::path file_;  // the end of the links
  bool regular_ = true;
  // Locks of a regular file: its lock file; the file before the run; the file that was written last.
  Descriptor lock_, earlier_, written_;
  Descriptor pipe_;  // of a named pipe
  ReportCopy copy_;
};

}  // namespace assay

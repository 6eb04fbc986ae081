#include "harness/conductor/run/progress.hpp"

#include "harness/core/clock.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/text.hpp"
#include "harness/report/report_json.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>

namespace assay {
namespace {

constexpr std::size_t line_width = 110;
constexpr std::size_t max_result = 2000;

// A full disk or a closed terminal loses the line, but does not end the run.
void put(std::FILE* out, const std::string& text) {
  [[maybe_unused]] const std::size_t written = std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
  std::clearerr(out);
}

}  // namespace

Progress Progress::on_stderr() { return {stderr, ::isatty(2) == 1}; }

void Progress::begin(std::string what, std::optional<Clock::time_point> since) {
  what_ = std::move(what);
  phase_ = "starts";
  share_ = 0;
  begun_ = since.value_or(Clock::now());
  draw(true);
}

void Progress::phase(std::string_view phase) {
  phase_ = phase;
  draw(false);
}

void Progress::steps(std::int64_t done, std::int64_t planned) {
  share_ = planned > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(planned), 0.0, 1.0) : 0;
  draw(false);
}

void Progress::end(std::string_view result, bool good, bool counts) {
  const double seconds = seconds_since(begun_);
  if (counts) {
    ++done_;
    spent_ += seconds;
    share_ = 0;
  }
  clear();
  if (!out_ || (terminal_ && good)) return;
  const std::string count = counts ? fmt::format("[{}/{}] ", done_, planned_) : "";
  const std::string left = terminal_ ? "" : time_left();
  put(out_, fmt::format("{}{}: {} ({}){}\n", count, one_line(what_), one_line(result, max_result),
                        duration_text(seconds), left.empty() ? "" : ", " + left));
}

void Progress::note(std::string_view line) {
  clear();
  if (out_) put(out_, one_line(line, max_result) + "\n");
}

void Progress::learnt(std::string_view text) {
  if (!terminal_ && !text.empty()) note(fmt::format("so far: {}", text));
  learnt_ = text;
}

void Progress::clear() {
  if (out_ && terminal_) put(out_, "\r\033[K");
}

std::string Progress::time_left() const {
  if (done_ == 0 || done_ >= planned_) return "";
  const double each = spent_ / done_;
  return fmt::format("about {} left", duration_text(each * (planned_ - done_ - share_)));
}

void Progress::draw(bool now) {
  if (!out_ || !terminal_) return;
  if (!now && Clock::now() - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = Clock::now();
  std::string line = fmt::format("[{}/{}] {}: {}", done_, planned_, what_, phase_);
  if (share_ > 0) line += fmt::format(" {:.0f} %", 100 * share_);
  if (const std::string left = time_left(); !left.empty()) line += ", " + left;
  if (!learnt_.empty()) line += "; so far " + learnt_;
  put(out_, "\r\033[K" + one_line(line, line_width));
}

namespace {

namespace fs = std::filesystem;

fs::path lock_of(const fs::path& report) { return report.string() + ".lock"; }

// False if another process keeps its lock. A worker that a killed run was about to start holds it until its program begins.
bool lock_soon(int file) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (std::chrono::steady_clock::now() > patience) return false;
    ::usleep(20'000);
  }
  return true;
}

[[noreturn]] void refuse_second_run(const fs::path& report) {
  throw IoError("run", report,
                "is being written by another run; wait for it, or name another file with --out");
}

// Of the report itself, if it exists: another name of it (a hard link) has another lock file.
Descriptor open_existing(const fs::path& report) {
  return Descriptor(::open(report.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

// Held until the run ends: otherwise a second run would overwrite the report of the first.
Descriptor lock_report(const fs::path& report) {
  const fs::path path = lock_of(report);
  for (;;) {
    Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!lock) throw IoError("run", path, "cannot be created; it marks the report as being written", errno);
    if (!lock_soon(lock.get())) refuse_second_run(report);
    // Its holder may have removed the file between the two calls.
    if (is_still_at(lock.get(), path)) return lock;
  }
}

// Opens the pipe before the run: a missing reader is found now and not after measuring.
Descriptor open_pipe(const fs::path& path) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  for (;;) {
    Descriptor pipe(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    if (pipe) {
      ::fcntl(pipe.get(), F_SETFL, 0);
      return pipe;
    }
    if (errno != ENXIO) throw IoError("run", path, "cannot be opened", errno);
    if (std::chrono::steady_clock::now() > patience)
      throw IoError("run", path, "is a pipe without a reader; start the reader first");
    ::usleep(20'000);
  }
}

// Writes all of the text and closes the pipe.
void write_to_pipe(Descriptor& pipe, const fs::path& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(pipe.get(), text.data(), text.size());
    if (count < 0 && errno != EINTR) throw IoError("run", path, "cannot be written", errno);
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  pipe.reset();
}

}  // namespace

Journal::Journal(fs::path file) : file_(std::move(file)) {
  if (file_.empty()) return;
  std::error_code error;
  const fs::path target = link_target(file_);
  if (fs::is_fifo(file_, error)) {
    regular_ = false;
    pipe_ = open_pipe(file_);
    return;
  }
  require_writable(file_);
  if (!fs::exists(target, error) || fs::is_regular_file(target, error)) file_ = target;
  remove_abandoned(file_);  // left by an earlier run that was killed while it wrote this report
  regular_ = !fs::exists(file_, error) || fs::is_regular_file(file_, error);
  if (!regular_) return;
  lock_ = lock_report(file_);
  earlier_ = open_existing(file_);
  if (earlier_ && !lock_soon(earlier_.get())) {
    ::unlink(lock_of(file_).c_str());
    refuse_second_run(file_);
  }
}

Journal::~Journal() {
  if (lock_) ::unlink(lock_of(file_).c_str());
}

void Journal::save(const Report& report) {
  if (!file_.empty() && regular_) write(report_text(report));
}

void Journal::finish(const Report& report) {
  if (!file_.empty()) write(report_text(report));
}

void Journal::lock_written() {
  Descriptor file = open_existing(file_);
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) written_ = std::move(file);
}

void Journal::write(std::string_view text) {
  try {
    std::error_code ignored;
    if (regular_ && fs::exists(file_, ignored) && !fs::is_regular_file(file_, ignored))
      throw IoError("run", file_, "was a file when the run began, and is none any more");
    if (pipe_)
      write_to_pipe(pipe_, file_, text);
    else
      write_atomically(file_, text);
    if (lock_) lock_written();
    copy_.drop();
  } catch (const std::runtime_error& error) {
    const fs::path copy = copy_.keep(text);
    throw Error(fmt::format("{}; {}", error.what(),
                            copy.empty() ? "a copy could not be written to another folder either"
                                         : "the report is in " + copy.string() + " instead"));
  }
}

}  // namespace assay

#include "harness/conductor/run/progress.hpp"

#include "harness/core/clock.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/text.hpp"
#include "harness/report/report_json.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

namespace assay {
namespace {

constexpr std::size_t line_width = 110;

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
  fmt::print(out_, "{}{}: {} ({}){}\n", count, what_, result, duration_text(seconds),
             left.empty() ? "" : ", " + left);
  std::fflush(out_);
}

void Progress::note(std::string_view line) {
  clear();
  if (out_) fmt::print(out_, "{}\n", line);
}

void Progress::clear() {
  if (out_ && terminal_) fmt::print(out_, "\r\033[K");
  if (out_) std::fflush(out_);
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
  fmt::print(out_, "\r\033[K{}", line.substr(0, line_width));
  std::fflush(out_);
}

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

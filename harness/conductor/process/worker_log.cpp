#include "harness/conductor/process/worker_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace assay {
namespace {

// Ignores errors: a full disk must not end the run, and the tail is in memory.
void write_what_fits(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

// Replaces every byte except printable ASCII, newline, tab and well-formed UTF-8 sequences.
std::string readable(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80                   ? 1
                               : lead >= 0xC2 && lead < 0xE0 ? 2
                               : lead >= 0xE0 && lead < 0xF0 ? 3
                                                             : 0;
    bool good = length > 0 && i + length <= text.size() &&
                (length > 1 || lead >= 0x20 || lead == '\n' || lead == '\t');
    for (std::size_t k = 1; good && k < length; ++k)
      good = (static_cast<unsigned char>(text[i + k]) & 0xC0) == 0x80;
    if (good && length == 3) {  // excludes overlong forms and surrogates
      const auto second = static_cast<unsigned char>(text[i + 1]);
      good = !(lead == 0xE0 && second < 0xA0) && !(lead == 0xED && second >= 0xA0);
    }
    if (good) {
      result.append(text.substr(i, length));
    } else if (lead != '\r') {
      result += '?';
    }
    i += good ? length : 1;
  }
  return result;
}

}  // namespace

WorkerLog::WorkerLog(int descriptor, const std::filesystem::path& file) : descriptor_(descriptor) {
  file_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) {
    const int error = errno;
    close_input();
    throw std::system_error(error, std::generic_category(), file.string());
  }
  ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
}

WorkerLog::~WorkerLog() {
  finish();
  close_input();
}

void WorkerLog::close_input() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void WorkerLog::drain() {
  char chunk[65536];
  for (int reads = 0; reads < 16 && descriptor_ >= 0; ++reads) {
    const ssize_t count = ::read(descriptor_, chunk, sizeof chunk);
    if (count == 0) close_input();
    if (count <= 0) return;
    const std::string_view text(chunk, static_cast<std::size_t>(count));
    total_ += text.size();
    if (written_ < head_bytes) {
      const std::string_view head = text.substr(0, head_bytes - written_);
      write_what_fits(file_, head);
      written_ += head.size();
    }
    tail_.append(text);
    if (tail_.size() > 2 * tail_bytes) tail_.erase(0, tail_.size() - tail_bytes);
  }
}

void WorkerLog::finish() {
  if (file_ < 0) return;
  if (total_ > written_) {
    const std::uint64_t missing = total_ - written_;
    const std::size_t kept =
        static_cast<std::size_t>(std::min<std::uint64_t>({missing, tail_.size(), tail_bytes}));
    if (missing > kept)
      write_what_fits(file_, fmt::format("\n[... {} bytes left out ...]\n", missing - kept));
    write_what_fits(file_, std::string_view(tail_).substr(tail_.size() - kept));
  }
  ::close(file_);
  file_ = -1;
}

std::string WorkerLog::tail(std::size_t bytes) const {
  std::string_view text = tail_;
  if (text.size() > bytes) {
    text.remove_prefix(text.size() - bytes);
    const std::size_t newline = text.find('\n');
    if (newline != std::string_view::npos && newline + 1 < text.size()) text.remove_prefix(newline + 1);
  }
  return readable(text);
}

}  // namespace assay

#include "harness/protocol/channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <system_error>

namespace assay::protocol {
namespace {

constexpr std::size_t shown_of_garbage = 200;

std::system_error failure(const char* call) { return {errno, std::generic_category(), call}; }

void make_non_blocking(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) throw failure("[channel] fcntl");
}

// Returns false if the deadline passed.
bool wait_for(int descriptor, short events, Deadline deadline) {
  for (;;) {
    int timeout = -1;
    if (deadline) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
      timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
    }
    pollfd one{descriptor, events, 0};
    const int ready = ::poll(&one, 1, timeout);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw failure("[channel] poll");
    if (deadline && std::chrono::steady_clock::now() >= *deadline) return false;
  }
}

}  // namespace

Channel::Channel(int read_descriptor, int write_descriptor)
    : read_(read_descriptor), write_(write_descriptor) {
  std::signal(SIGPIPE, SIG_IGN);
  make_non_blocking(read_);
  make_non_blocking(write_);
}

Channel::~Channel() {
  close_write();
  ::close(read_);
}

void Channel::close_write() {
  if (write_ >= 0) ::close(write_);
  write_ = -1;
}

bool Channel::fill() {
  char chunk[16384];
  for (;;) {
    const ssize_t count = ::read(read_, chunk, sizeof chunk);
    if (count > 0) {
      buffer_.append(chunk, static_cast<std::size_t>(count));
      return true;
    }
    if (count == 0 || errno == ECONNRESET) {
      ended_ = true;
      return false;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    if (errno != EINTR) throw failure("[channel] read");
  }
}

Line Channel::take_line() {
  for (;;) {
    const std::size_t newline = buffer_.find('\n', scanned_);
    if (newline != std::string::npos && newline <= max_line_bytes) {
      Line line{Reading::line, buffer_.substr(0, newline)};
      buffer_.erase(0, newline + 1);
      scanned_ = 0;
      return line;
    }
    scanned_ = std::min(buffer_.size(), max_line_bytes);
    if (buffer_.size() > max_line_bytes) return {Reading::too_long, buffer_.substr(0, shown_of_garbage)};
    if (ended_) {
      if (buffer_.empty()) return {Reading::end, {}};
      return {Reading::truncated, buffer_.substr(0, shown_of_garbage)};
    }
    if (!fill() && !ended_) return {Reading::pending, {}};
  }
}

Line Channel::read_line(Deadline deadline) {
  for (;;) {
    Line line = take_line();
    if (line.reading != Reading::pending || !wait_for(read_, POLLIN, deadline)) return line;
  }
}

Writing Channel::write_line(std::string_view text, Deadline deadline) {
  assert(text.find('\n') == std::string_view::npos);
  if (write_ < 0) return Writing::closed;
  std::string line(text);
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t count = ::write(write_, rest.data(), rest.size());
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return Writing::closed;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(write_, POLLOUT, deadline)) return Writing::timed_out;
    } else if (errno != EINTR) {
      throw failure("[channel] write");
    }
  }
  return Writing::done;
}

}  // namespace assay::protocol

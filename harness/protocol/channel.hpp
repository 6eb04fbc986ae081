// Lines over a pair of descriptors: the connection between conductor and worker, for both sides.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace assay::protocol {

// A longer line is an error: tensors are sent as files, never in a message.
inline constexpr std::size_t max_line_bytes = std::size_t{1} << 20;

using Deadline = std::optional<std::chrono::steady_clock::time_point>;  // absent: wait for ever

enum class Reading {
  line,       // `text` is one line without its newline
  pending,    // no whole line yet (take_line), or the deadline passed (read_line)
  end,        // the other side closed between two lines
  truncated,  // the other side closed in the middle of a line; `text` is the part that arrived
  too_long,   // more than max_line_bytes without a newline; `text` is its beginning
};

struct Line {
  Reading reading = Reading::pending;
  std::string text;
};

enum class Writing {
  done,
  closed,     // the other side no longer reads (EPIPE)
  timed_out,  // the other side exists, but its pipe stayed full until the deadline
};

// Owns both descriptors and closes them; makes them non-blocking. Ignores SIGPIPE in this process, so that a
// closed peer is reported as `closed` and does not kill the process. For one thread at a time. Throws
// std::system_error for errors that a pipe should never have.
class Channel {
 public:
  // The descriptors must differ.
  Channel(int read_descriptor, int write_descriptor);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Waits for the next line. After end, truncated or too_long it returns the same again.
  Line read_line(Deadline deadline = {});
  // `text` must not contain a newline.
  Writing write_line(std::string_view text, Deadline deadline = {});

  // For callers that poll several descriptors: poll this one for POLLIN, then call take_line() until it
  // returns pending.
  int read_descriptor() const { return read_; }
  Line take_line();

  void close_write();

 private:
  bool fill();  // reads the available bytes; false: there were none

  int read_;
  int write_;
  std::string buffer_;
  std::size_t scanned_ = 0;  // bytes of buffer_ that are known to contain no newline
  bool ended_ = false;
};

}  // namespace assay::protocol

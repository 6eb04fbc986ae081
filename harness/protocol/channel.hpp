// Lines over a pair of descriptors: how conductor and worker speak, from either side.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace assay::protocol {

// A longer line is garbage: tensors travel by file, never in a message.
inline constexpr std::size_t max_line_bytes = std::size_t{1} << 20;

using Deadline = std::optional<std::chrono::steady_clock::time_point>;  // absent: wait for ever

enum class Reading {
  line,       // `text` is one line without its newline
  pending,    // nothing whole yet (take_line), or the deadline passed (read_line)
  end,        // the other side closed between two lines
  truncated,  // the other side closed half way through a line; `text` is what came of it
  too_long,   // more than max_line_bytes without a newline; `text` is how it began
};

struct Line {
  Reading reading = Reading::pending;
  std::string text;
};

enum class Writing {
  done,
  closed,     // the other side does not read any more (EPIPE)
  timed_out,  // it is there, but its pipe stayed full until the deadline
};

// Owns both descriptors and closes them; makes them non-blocking. Ignores SIGPIPE in this process, so that a
// peer which is gone is an answer and not a death. One thread at a time. Throws std::system_error for what a
// pipe should never do.
class Channel {
 public:
  // Two different descriptors.
  Channel(int read_descriptor, int write_descriptor);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Waits for the next line. After end, truncated or too_long it says the same again.
  Line read_line(Deadline deadline = {});
  // `text` without a newline; must not contain one.
  Writing write_line(std::string_view text, Deadline deadline = {});

  // For those who poll for more than this: the descriptor to poll for POLLIN, and then what to call until it
  // is pending.
  int read_descriptor() const { return read_; }
  Line take_line();

  void close_write();

 private:
  bool fill();  // reads what is there now; false: nothing came

  int read_;
  int write_;
  std::string buffer_;
  std::size_t scanned_ = 0;  // of buffer_, known to hold no newline
  bool ended_ = false;
};

}  // namespace assay::protocol

// Reads the pipes of a worker: lines of the channel, and its log.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/conductor/process/worker_log.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/text.hpp"
#include "harness/protocol/channel.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_channel {
namespace {

using protocol::Reading;

// The end to read from of a pipe that holds `bytes` and has no writer. They fit into the pipe.
int pipe_with(std::string_view bytes) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const ssize_t written = ::write(ends[1], bytes.data(), bytes.size());
  ::close(ends[1]);
  require(written == static_cast<ssize_t>(bytes.size()), "the input fits into a pipe");
  return ends[0];
}

void read_lines(std::string_view text) {
  const int unused = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  protocol::Channel channel(pipe_with(text), unused);
  std::string read;
  for (;;) {
    const protocol::Line line = channel.take_line();
    if (line.reading != Reading::line) {
      require(line.reading == (read.size() == text.size() ? Reading::end : Reading::truncated),
              "the channel ends after the last line, or within it");
      break;
    }
    require(line.text.find('\n') == std::string::npos, "a line has no end in it");
    read += line.text + '\n';
  }
  require(text.starts_with(read), "lines are read as they were written");
}

void read_log(std::string_view text) {
  WorkerLog log(pipe_with(text), scratch() / "log");
  while (log.descriptor() >= 0) log.drain();
  log.finish();
  require(log.total() == text.size(), "all of a log is read");
  require(read_text(scratch() / "log") == text, "a short log is kept as it is");
  const std::string tail = log.tail();
  require(find_bad_utf8(tail) == std::string::npos, "the end of a log is UTF-8");
  for (const char c : tail)
    require(static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t',
            "the end of a log has no control characters");
}

const Registration here("channel", [](Input input) {
  constexpr std::size_t pipe_bytes = 1 << 16;
  const std::string_view text = text_of(input).substr(0, pipe_bytes);
  read_lines(text);
  read_log(text);
});

}  // namespace
}  // namespace assay::fuzz::of_channel

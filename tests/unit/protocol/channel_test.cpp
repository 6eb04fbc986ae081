#include "harness/protocol/channel.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace assay::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// For what comes at once: on a busy machine, too.
constexpr milliseconds patience{60'000};

Deadline in(milliseconds time) { return steady_clock::now() + time; }

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0); }
  int ends[2] = {-1, -1};
};

// A channel that reads what the test writes, and writes where the test may read.
class ChannelTest : public ::testing::Test {
 protected:
  ~ChannelTest() override {
    close_peer_writer();
    close_peer_reader();
  }
  void send(std::string_view text) {
    ASSERT_EQ(::write(to_channel_.ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void close_peer_writer() {
    if (to_channel_.ends[1] >= 0) ::close(to_channel_.ends[1]);
    to_channel_.ends[1] = -1;
  }
  void close_peer_reader() {
    if (from_channel_.ends[0] >= 0) ::close(from_channel_.ends[0]);
    from_channel_.ends[0] = -1;
  }

  Pipe to_channel_, from_channel_;
  Channel channel_{to_channel_.ends[0], from_channel_.ends[1]};
};

TEST_F(ChannelTest, gives_lines_one_by_one_however_they_arrive) {
  send("one\ntwo\nthr");
  EXPECT_EQ(channel_.read_line(in(patience)).text, "one");
  EXPECT_EQ(channel_.read_line(in(patience)).text, "two");
  EXPECT_EQ(channel_.read_line(in(milliseconds(1))).reading, Reading::pending);
  send("ee\n");
  EXPECT_EQ(channel_.read_line(in(patience)).text, "three");
}

TEST_F(ChannelTest, gives_up_at_the_deadline) {
  const auto begin = steady_clock::now();
  EXPECT_EQ(channel_.read_line(in(milliseconds(30))).reading, Reading::pending);
  EXPECT_GE(steady_clock::now() - begin, milliseconds(30));
}

TEST_F(ChannelTest, distinguishes_a_clean_end_from_a_cut_line) {
  send("whole\nhal");
  close_peer_writer();
  EXPECT_EQ(channel_.read_line().text, "whole");
  const Line line = channel_.read_line();
  EXPECT_EQ(line.reading, Reading::truncated);
  EXPECT_EQ(line.text, "hal");
  EXPECT_EQ(channel_.read_line().reading, Reading::truncated);
}

TEST_F(ChannelTest, says_end_when_the_other_side_closed) {
  close_peer_writer();
  EXPECT_EQ(channel_.read_line().reading, Reading::end);
}

TEST_F(ChannelTest, refuses_a_line_without_end) {
  std::thread flood([this] {
    const std::string chunk(65536, 'x');
    for (int i = 0; i < 32; ++i) {
      if (::write(to_channel_.ends[1], chunk.data(), chunk.size()) < 0) return;
    }
  });
  const Line line = channel_.read_line(in(patience));
  EXPECT_EQ(line.reading, Reading::too_long);
  EXPECT_LT(line.text.size(), 1000U);
  char sink[65536];
  ::fcntl(to_channel_.ends[0], F_SETFL, 0);
  std::thread drain([&] {
    while (::read(to_channel_.ends[0], sink, sizeof sink) > 0) {
    }
  });
  flood.join();
  close_peer_writer();
  drain.join();
}

TEST_F(ChannelTest, takes_a_line_of_exactly_the_limit) {
  const std::string longest(max_line_bytes, 'x');
  std::thread writer([&] {
    std::string_view rest = longest;
    while (!rest.empty()) {
      const ssize_t count = ::write(to_channel_.ends[1], rest.data(), rest.size());
      if (count <= 0) return;
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
    send("\n");
  });
  const Line line = channel_.read_line(in(patience));
  writer.join();
  ASSERT_EQ(line.reading, Reading::line);
  EXPECT_EQ(line.text.size(), longest.size());
}

TEST_F(ChannelTest, writes_a_line_larger_than_the_pipe_in_parts) {
  const std::string large(300'000, 'y');
  std::string got;
  std::thread reader([&] {
    char chunk[4096];
    while (got.size() < large.size() + 1) {
      const ssize_t count = ::read(from_channel_.ends[0], chunk, sizeof chunk);
      if (count <= 0) break;
      got.append(chunk, static_cast<std::size_t>(count));
    }
  });
  EXPECT_EQ(channel_.write_line(large, in(patience)), Writing::done);
  reader.join();
  EXPECT_EQ(got, large + "\n");
}

TEST_F(ChannelTest, survives_a_peer_that_reads_no_more) {
  close_peer_reader();
  EXPECT_EQ(channel_.write_line("hello"), Writing::closed);
}

TEST_F(ChannelTest, gives_up_writing_to_a_peer_that_hangs) {
  EXPECT_EQ(channel_.write_line(std::string(1'000'000, 'z'), in(milliseconds(20))), Writing::timed_out);
}

}  // namespace
}  // namespace assay::protocol

#include "harness/conductor/process/interrupts.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace assay {
namespace {

constexpr std::array watched = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};

std::atomic<int> first_signal{0};
std::atomic<int> received{0};
std::array<int, 2> pipe_ends = {-1, -1};
std::array<struct sigaction, watched.size()> previous_actions;

void remember(int number) {
  const int saved = errno;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, number) && pipe_ends[1] >= 0) {
    [[maybe_unused]] const ssize_t ignored = ::write(pipe_ends[1], "!", 1);
  }
  if (++received >= 3) ::_exit(128 + number);
  errno = saved;
}

}  // namespace

Interrupts::Interrupts() {
  if (::pipe2(pipe_ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::generic_category(), "[interrupts] pipe2");
  }
  first_signal = 0;
  received = 0;
  struct sigaction action{};
  action.sa_handler = remember;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < watched.size(); ++i) {
    struct sigaction present{};
    ::sigaction(watched[i], nullptr, &present);
    if (present.sa_handler == remember) continue;  // an object before this one got a signal
    previous_actions[i] = present;
    // Keeps signals ignored that nohup, or trap '' in a shell, set to be ignored.
    if (present.sa_handler != SIG_IGN) ::sigaction(watched[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  // After a signal the program only prints and ends: one more must not change its exit code.
  if (first_signal == 0) {
    for (std::size_t i = 0; i < watched.size(); ++i) ::sigaction(watched[i], &previous_actions[i], nullptr);
  }
  for (int& end : pipe_ends) ::close(std::exchange(end, -1));
}

int Interrupts::descriptor() const { return pipe_ends[0]; }
int Interrupts::signal() const { return first_signal; }

}  // namespace assay

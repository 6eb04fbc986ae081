// assay-rank SOCKET VARIABLES: a launcher such as mpirun starts it once for each rank. It takes its number from the
// first of the environment variables VARIABLES (split at commas) that is set, gets a worker's command and descriptors
// from the conductor at SOCKET, runs the worker, and reports how it ended. If the conductor closes the connection, it
// ends the worker and itself.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>

#include "harness/core/process_tree.hpp"
#include "harness/launch/messages.hpp"

namespace assay::launch {
namespace {

// -1: no variable has a number.
int own_rank(std::string_view variables) {
  while (!variables.empty()) {
    const std::string name(variables.substr(0, variables.find(',')));
    variables.remove_prefix(std::min(name.size() + 1, variables.size()));
    const std::string_view text = std::getenv(name.c_str()) ? std::getenv(name.c_str()) : "";
    int rank = -1;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error == std::errc() && rest == text.data() + text.size() && rank >= 0) return rank;
  }
  return -1;
}

std::string own_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Kills what the worker left behind: its group, and all that became children of this process.
void end_descendants(pid_t worker) {
  constexpr std::chrono::seconds patience{10};
  ::kill(-worker, SIGKILL);
  // The worker is not yet waited for, so that its number is not used again.
  end_children([worker](pid_t child) { return child != worker; }, patience);
}

bool has_ended(pid_t worker) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(worker), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return errno == ECHILD;
  return info.si_pid == worker;
}

// Waits for the end of the worker, or ends it if the conductor is gone.
WorkerExit wait_for(pid_t worker, int socket) {
  const Descriptor process(open_process(worker));
  pollfd waits[] = {{process.get(), POLLIN, 0}, {socket, POLLIN, 0}};
  // A kernel or a container without pidfd_open gives no descriptor: then it looks from time to time.
  const int max_wait_ms = process ? -1 : 50;
  while (!has_ended(worker)) {
    if (::poll(waits, 2, max_wait_ms) < 0 && errno != EINTR) break;
    if (waits[1].revents != 0) {  // the conductor says nothing more: this is the end of the connection
      ::kill(-worker, SIGKILL);
      waits[1].fd = -1;
    }
  }
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(worker), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  end_descendants(worker);
  return reap(worker).value_or(WorkerExit{.is_lost = true});
}

void wait_for_end_of(int socket) {
  while (receive_report(socket)) {
  }
}

int run(int rank, const char* place) {
  const Descriptor socket = connect_to(place);
  if (!send(socket.get(), RankHere{rank, own_host()})) return 1;
  pid_t worker = 0;
  int error = 0;
  {  // the worker's end of the descriptors is closed at the end of the block
    const std::optional<RankOrders> orders = receive_orders(socket.get());
    if (!orders) return 1;  // the conductor has given up
    try {
      const StartedChild child = start_child({.command = orders->command,
                                              .environment = orders->environment,
                                              .reaches = nullptr,  // what is here is the launcher's
                                              .folder = orders->folder,
                                              .cores = orders->cores,
                                              .rules = orders->rules.get(),
                                              .commands = orders->commands.get(),
                                              .events = orders->events.get(),
                                              .log = orders->log.get()},
                                             ::fork);
      worker = child.process;
      error = child.error;
    } catch (const std::system_error& failure) {
      error = failure.code().value();
    }
  }
  if (error != 0) {
    send(socket.get(), WorkerNotStarted{error});
    wait_for_end_of(socket.get());
    return 1;
  }
  send(socket.get(), WorkerStarted{worker});
  send(socket.get(), WorkerEnded{wait_for(worker, socket.get())});
  wait_for_end_of(socket.get());
  return 0;
}

}  // namespace
}  // namespace assay::launch

int main(int count, char** arguments) try {
  assay::undo_inherited_signals();
  if (count != 3) {
    std::fputs("usage: assay-rank SOCKET VARIABLES; the launcher of assay run --launcher calls it\n", stderr);
    return 2;
  }
  // A launcher ends all ranks if one fails. The conductor decides about that; SIGKILL still ends rank and worker.
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) std::signal(number, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const int rank = assay::launch::own_rank(arguments[2]);
  if (rank < 0) {
    std::fprintf(stderr, "assay-rank: the launcher set none of %s\n", arguments[2]);
    return 2;
  }
  return assay::launch::run(rank, arguments[1]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "assay-rank: %s\n", error.what());
  return 1;
}

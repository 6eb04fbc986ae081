#include <fcntl.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "harness/core/error.hpp"
#include "harness/worker/server.hpp"

namespace assay {
namespace {

constexpr int commands = 3;
constexpr int events = 4;

}  // namespace

int worker_main(int argc, char** argv, Backend& backend) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} CELL_FOLDER\nA worker is started by assay; docs/protocol.md says how.\n",
               argv[0]);
    return 2;
  }
  if (::fcntl(commands, F_GETFD) < 0 || ::fcntl(events, F_GETFD) < 0) {
    fmt::print(
        stderr,
        "{}: descriptors {} and {} are not open. A worker is started by assay; docs/protocol.md says how.\n",
        argv[0], commands, events);
    return 2;
  }
  try {
    protocol::Channel channel(commands, events);
    Server(argv[1], backend, channel).serve();
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], internal_error(error));
    return 1;
  }
  return 0;
}

}  // namespace assay

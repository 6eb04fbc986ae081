#include "harness/conductor/run/clock_file.hpp"

#include <limits>

#include "harness/protocol/clock_file.hpp"

namespace assay {

void read_clock(const std::filesystem::path& file, bool has_loss, Fork& fork) {
  ClockFile clock = read_clock_file(file);
  fork.blocks = std::move(clock.blocks);
  for (Block& block : fork.blocks) {
    if (!has_loss)
      block.loss.reset();
    else if (!block.loss)
      block.loss = std::numeric_limits<double>::quiet_NaN();
  }
  fork.evaluations = std::move(clock.evaluations);
  fork.latencies_ns = std::move(clock.latencies_ns);
  fork.latencies_seen = clock.latencies_seen;
  fork.steady = clock.warm_up.steady;
  if (fork.steady == false) fork.flags.emplace_back("not_steady");
}

}  // namespace assay

// The clock file of a worker, and what the conductor concludes of its blocks.
#include <nlohmann/json.hpp>

#include "harness/conductor/check/audit.hpp"
#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/conductor/fork/quality.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/protocol/clock_file.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_clock {
namespace {

constexpr RunWindow window{1'000'000'000, 61'000'000'000, 120'000'000'000, 2};

void require_same_again(const ClockFile& clock) {
  const std::filesystem::path again = scratch() / "clock.json";
  write_clock_file(again, clock);
  const ClockFile same = read_clock_file(again);
  require(encode(same).dump() == encode(clock).dump(), "what is written again is the same");
}

// The requirements of take_clock() in the conductor.
bool is_plausible(const Fork& fork) {
  Violations violations("clock");
  validate_fork(violations, fork);
  return violations.found().empty() && contradiction_in_clock(fork, window).empty();
}

const Registration here("clock", [](Input input) {
  const std::filesystem::path& file = file_with(input);
  require_same_again(read_clock_file(file));
  for (const bool has_loss : {true, false}) {
    Fork fork;
    fork.status = Status::ok;
    read_clock(file, has_loss, fork);
    for (const Block& block : fork.blocks)
      require(block.loss.has_value() == has_loss, "a block has a loss where there is one");
    if (!is_plausible(fork)) continue;
    std::int64_t steps = 0;
    for (const Block& block : fork.blocks) {
      require(block.begin_ns > 0 && block.end_ns > block.begin_ns, "a block takes time");
      steps += block.steps;
    }
    std::int64_t last = 0;
    for (const ReportedLoss& one : replayable(fork.blocks)) {
      require(one.steps > last && one.steps <= steps, "replayed steps ascend");
      last = one.steps;
    }
    if (const auto time = fork_time(fork))
      require(time->step_seconds > 0 && time->step_seconds <= 62, "a step takes part of the run");
    add_warnings(fork);
  }
});

}  // namespace
}  // namespace assay::fuzz::of_clock

// The file of a calibration, and what is left of it when some of its sessions are out of date.
#include <cmath>
#include <string>

#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/print/printers.hpp"
#include "harness/core/json/strict_json.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_calibration {
namespace {

void require_usable(const Calibration& calibration) {
  for (const CellNoise& cell : calibration.cells)
    for (const auto& [forks, change] : cell.visible) require(!std::isnan(change), "a change is a number");
  for (const MetricHistory& history : calibration.histories())
    for (const auto& spread : spreads_of(history.cells, {.prior_deviation = 0.02, .prior_degrees = 4}))
      require(spread && spread->of_runs >= 0 && spread->run_degrees > 0, "a spread is a number");
  if (const auto rounds = calibration.rounds_for({}, 0.05, 0.95)) require(*rounds >= 1, "rounds are counted");
  console(calibration_table(calibration), {});
}

const Registration here("calibration", [](Input input) {
  const Calibration calibration = parse_calibration(std::string(text_of(input)), "fuzz");
  const std::string written = strict_json_text(to_json(calibration));
  require(strict_json_text(to_json(parse_calibration(written, "again"))) == written,
          "what is written again is the same");
  require_usable(calibration);
  const MachineRecord machine{.kernel = "6.1",
                              .cpu = {.model = "a processor", .allowed = 2, .loop_seconds = 300e-6}};
  const InForce found = in_force(calibration, machine, "2026-02-01T00:00:00Z");
  require(found.left_out.size() <= calibration.sessions.size(), "a session is left out once");
  if (!found.calibration) return;
  require(found.calibration->sessions.size() + found.left_out.size() == calibration.sessions.size(),
          "a session is used or left out");
  require_usable(*found.calibration);
});

}  // namespace
}  // namespace assay::fuzz::of_calibration

// The exit codes of the program; also listed in docs/reference/command-line.md and `assay --help`.
#pragma once

namespace assay {

struct AbOutcome;
struct Comparison;

namespace cli {

enum ExitCode : int {
  fine = 0,
  own_failure = 1,
  bad_input = 2,
  regression = 3,
  incomplete = 4,  // a cell is missing or not ok
  not_comparable = 5,
  inconclusive = 6,
};

// Precedence: not comparable (5), slower or broken (3), missing or failed on both sides (4; also if no cell
// was compared), inconclusive or all cells slower together (6), else 0. Overlooked findings do not count.
ExitCode exit_code(const Comparison& comparison);
// `incomplete` if the run was interrupted, else that of the comparison.
ExitCode exit_code(const AbOutcome& outcome);

}  // namespace cli
}  // namespace assay

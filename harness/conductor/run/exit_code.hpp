// What the program exits with; docs/report.md and `assay --help` say the same.
#pragma once

namespace assay {

enum ExitCode : int {
  fine = 0,
  own_failure = 1,
  bad_input = 2,
  regression = 3,
  incomplete = 4,  // a cell is missing or not ok
  not_comparable = 5,
  inconclusive = 6,
};

}  // namespace assay

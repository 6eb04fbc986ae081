// Reports as the command line names them: a file, or "-" for standard input.
#pragma once

#include <optional>
#include <string>

#include "harness/report/report.hpp"

namespace assay::cli {

// Throw JsonError. Warns where other rules than this program's made its metrics.
Report load_report(const std::string& file);

struct TwoReports {
  std::optional<Report> base;  // nothing where a folder of baselines has none of this machine: `why`
  Report current;
  std::string why;
};
// Both at once, on two threads where both are files. Of a folder of baselines the one that is named after the
// machine of `current`.
TwoReports load_two(const std::string& base, const std::string& current);

}  // namespace assay::cli

// The metrics as tidy CSV (RFC 4180, LF line ends): one row per cell and metric.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// A cell without metrics has one row, so that no cell is lost. Numbers keep every bit; null is an empty
// field.
std::string csv(const std::vector<Report>& reports);

// A text field: quoted where it must be. A field that a spreadsheet would run as a formula gets an apostrophe
// in front.
std::string csv_field(std::string_view text);

}  // namespace assay

// A calibration for people.
#pragma once

#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/print/table.hpp"

namespace assay {

Table calibration_table(const Calibration& calibration);

}  // namespace assay

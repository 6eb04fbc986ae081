// A calibration for people.
#pragma once

#include "harness/gate/calibration.hpp"
#include "harness/report/table.hpp"

namespace assay {

Table calibration_table(const Calibration& calibration);

}  // namespace assay

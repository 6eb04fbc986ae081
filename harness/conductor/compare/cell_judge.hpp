// What two rows of one cell say about each other before any clock is asked, and how a clock's verdict is
// filled in.
#pragma once

#include <functional>
#include <string>

#include "harness/conductor/compare/breakage.hpp"
#include "harness/conductor/compare/verdict.hpp"
#include "harness/report/report.hpp"

namespace assay {

// `judge` is asked where both are ok. What is broken is so however fast; what was not ok in the baseline is
// new where it is ok now, and unmeasured where it is not.
CellVerdict judge_pair(const CellReport& base, const CellReport& current, const std::string& metric,
                       const BreakageSettings& breakage, const std::function<CellVerdict()>& judge);

}  // namespace assay

// The questions of `assay show --format json --ask` to an analysis.
#pragma once

#include <string>
#include <vector>

#include "harness/report/analysis.hpp"

namespace assay {

// Each text is METRIC[/METRIC],CELL[,CELL]: `training_time,0,3` or `first_epoch_time/epoch_time,2,2` for a ratio, and
// `epoch_time,2` for a value. Throws ConfigError for another form, an unknown metric and a cell that is not there.
std::vector<Question> read_questions(const std::vector<std::string>& texts, const Analysis& all);

}  // namespace assay

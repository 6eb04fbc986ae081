// The variables that --environment gives to the workers that measure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// Parses items such as "OMP_WAIT_POLICY=passive"; a later one replaces an earlier one of the same name. Throws ConfigError
// for a text that is not NAME=VALUE, a variable that this program sets, and one that may hold a secret.
std::map<std::string, std::string> parse_environment(const std::vector<std::string>& given);

// Whether a config or a report may set the variable by itself. Others can make a worker load or execute a file that the
// variable names, such as LD_PRELOAD and PYTHONPATH.
bool may_be_in_config(std::string_view variable);

}  // namespace assay

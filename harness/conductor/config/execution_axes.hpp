// The axes that every cell has, of a network or of a single op: where and how it is executed.
#pragma once

#include <string>
#include <string_view>

#include "harness/conductor/config/options.hpp"
#include "harness/report/report.hpp"

namespace assay {

// What a point (one value an axis, empty: not given) says of an axis, or the fallback.
std::string axis_or(const OptionValues& point, std::string_view axis, const std::string& fallback);

// Fills device, task, precision, layout, threads, compile_cache and deterministic; `task` is the one where
// none is given.
void settle_execution(Axes& axes, const OptionValues& point, const std::string& task);

}  // namespace assay

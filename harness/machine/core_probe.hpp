// Whether several processors are one physical core. A virtual machine does not show it, and its host may change it from
// one second to the next.
#pragma once

#include <optional>
#include <vector>

namespace assay {

// How many times as long the same loop takes on the slowest of these logical processors while all of them run it as
// while that one runs it alone. About 1 if each has a core of its own (up to 1.4 where clocks fall with the number of
// busy cores), about 2 if two share a core. Takes about 12 ms and keeps all of them busy. Absent if there are fewer
// than two, or if a thread could not be placed on one of them.
std::optional<double> slowdown_together(const std::vector<int>& processors);

}  // namespace assay

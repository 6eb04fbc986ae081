// Says which forks other processes disturbed.
#pragma once

#include <span>

#include "harness/report/report.hpp"

namespace assay {

// Of the processors' time: what other processes may take.
inline constexpr double max_taken = 0.03;

// Sets or removes the flag `disturbed` of each fork of a group that has the record `disturbance`: the share that others
// took, without what is usual for its program, is above max_taken.
//
// Others' share is what is left of the processors' time, so it has what a program costs the kernel and the hypervisor,
// such as waking a thread thousands of times a second. Usual for a program is the lower quartile, over the rounds, of how
// far its share is above the lowest of the round. So a load that all cells of a round meet is nobody's program, nor is one
// that comes and goes. With fewer than four rounds with another cell nothing is usual. Returns true if a flag changed.
bool mark_foreign_load(std::span<CellReport* const> group);

}  // namespace assay

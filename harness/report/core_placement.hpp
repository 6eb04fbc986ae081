// Judges where the host had the processors of forks.
#pragma once

#include <span>

#include "harness/report/report.hpp"

namespace assay {

// The better placement: the lower slowdown, and the lower hop of those whose processors do not share a core.
CoreReading better_of(const CoreReading& one, const CoreReading& other);

// Whether processors that are usually placed so were on one core, or much further apart.
bool is_worse_placed(const CoreReading& reading, const CoreReading& usual);

// Sets or removes the flag `placement` of each fork of a group: its processors were worse placed, before or after its
// timed run, than in the best reading of the group's forks of the same session. Returns true if a flag changed.
bool mark_worse_placed(std::span<CellReport* const> group);

}  // namespace assay

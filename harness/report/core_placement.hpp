// Says where the host had the processors of forks.
#pragma once

#include <map>
#include <span>
#include <string>

#include "harness/report/report.hpp"

namespace assay {

// The placement that these readings show as the usual good one: the lowest slowdown, and the lower quartile of the hops
// of those whose processors do not share a core. (A host may move processors between the two readings, so the lowest
// hop may be one within a core.) Precondition: there is a reading.
CoreReading usual_of(std::span<const CoreReading> readings);

// Whether processors that are usually placed so were on one core, or much further apart.
bool is_worse_placed(const CoreReading& reading, const CoreReading& usual);

// Sets or removes the flag `placement` of each fork of a group: before its timed run its processors were worse placed
// than usual in the group's forks of the same session. The reading after the run sets no flag: a host moves processors
// that are busy, so it depends on the program. Returns true if a flag changed.
bool mark_worse_placed(std::span<CellReport* const> group);

// What is usual over several runs of one program on one machine, by group of cells. Between runs of one program, both
// readings of a fork may count: the program has the same effect on all of them.
class UsualPlacement {
 public:
  UsualPlacement() = default;  // nothing is usual
  // Of these cells' forks, by the readings before their runs.
  explicit UsualPlacement(std::span<const CellReport* const> cells);
  // Whether the fork's processors were worse placed than usual before or after its timed run. A fork without readings is
  // not moved, nor is one of a group for which nothing is usual.
  bool is_moved(const CellReport& cell, const Fork& fork) const;

 private:
  std::map<std::string, CoreReading> usual_;  // by group_title()
};

}  // namespace assay

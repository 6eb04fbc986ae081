// Which forks of a run come next. A round has one fork of each cell, those of a group (cells that are compared) one
// after the other, in an order drawn from (seed, round), so that what drifts meets all of them alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/matrix.hpp"
#include "harness/report/report.hpp"

namespace assay {

struct PlannedFork {
  std::size_t cell = 0;  // index into the cells
  int round = 0;
};

// With `until` == forks each group gets `forks` rounds, and up to `spare_rounds` more for rounds in which the machine
// was disturbed. With `until` == clear a group gets rounds until the order of its cells is clear; its cells drop out as
// the pairs of neighbors in rank that they are in are decided: their ratio is clear of 1, or within 2 % of it. It is
// looked at after 6, 9, 13, 18 and 25 rounds that count, see time_ratio().
class Rounds {
 public:
  // Cells that cannot be run take no part.
  Rounds(const std::vector<Cell>& cells, const RunSettings& settings);

  // The forks of the next round of every group that goes on; empty: nothing is left. `report` has a row for each cell,
  // with what was measured so far.
  std::vector<PlannedFork> next(const Report& report);

  // As many as are known to come, those that next() gave included.
  std::vector<PlannedFork> foreseen() const;

 private:
  struct Group {
    std::string name{};
    std::vector<std::size_t> active{};
    int begun = 0;   // rounds
    int target = 0;  // rounds that shall be begun, as far as is known
    std::size_t looks = 0;
  };
  void extend(Group& group, const Report& report) const;
  void look(Group& group, const Report& report, int disturbed) const;

  RunSettings settings_;
  std::vector<Group> groups_;
  std::vector<PlannedFork> given_;
};

}  // namespace assay

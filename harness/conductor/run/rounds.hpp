// Chooses the next forks of a run. A round has one fork of each cell; the forks of a group (cells that are
// compared) run one after the other, in an order drawn from (seed, round), so that drift affects all of them
// equally.
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

// With `until` == forks each group gets `forks` rounds, and up to `spare_rounds` more to replace disturbed
// rounds. With `until` == clear a group gets rounds until the order of its cells is clear. A cell drops out
// when the pairs of neighbors in rank that contain it are decided: the interval of the ratio excludes 1, or
// is within 2 % of 1. The pairs are judged after 6, 9, 13, 18 and 25 rounds that count, see time_ratio().
class Rounds {
 public:
  // Ignores cells that cannot be run.
  Rounds(const std::vector<Cell>& cells, const RunSettings& settings);

  // The forks of the next round of every group that continues; empty: all groups are done. `report` has a row
  // for each cell, with the existing measurements.
  std::vector<PlannedFork> next(const Report& report);

  // All forks that are known now, including those that next() returned.
  std::vector<PlannedFork> foreseen() const;

 private:
  struct Group {
    std::string name{};
    std::vector<std::size_t> active{};
    int begun = 0;   // rounds
    int target = 0;  // planned rounds, as far as known
    std::size_t looks = 0;
  };
  void extend(Group& group, const Report& report) const;
  void look(Group& group, const Report& report, int disturbed) const;

  RunSettings settings_;
  std::vector<Group> groups_;
  std::vector<PlannedFork> given_;
};

}  // namespace assay

// Chooses the next forks of a run. A round has one fork of each cell; the forks of a group (cells that are
// compared, also by a published ratio) run one after the other, in an order drawn from (seed, round), so that drift affects
// all of them equally.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/report/report.hpp"
#include "harness/report/run_record.hpp"

namespace assay {

struct PlannedFork {
  std::size_t cell = 0;  // index into the cells
  int round = 0;
};

// What counts is the number of rounds of each *pair* of cells of a group, in which both forks count and are of one
// session: these are the values of their ratio. A cell runs in the next round if one of its pairs needs one.
//
// With `until` == forks each pair gets `forks` rounds, and one more for each round that does not count for it: up to
// `spare_rounds`, or up to a third of them if none counts. With `until` == clear a pair gets rounds until it is settled:
// the interval of the ratio excludes 1, or is within 2 % of 1. It is decided after 6, 9, 13, 18 and 25 rounds that count,
// see time_ratio(); it is given up if fewer than a quarter of 24 rounds or more count.
//
// Forks of an earlier session (--resume) are kept. If a pair lacks rounds, both cells run in new ones.
class Rounds {
 public:
  // `report` has a row for each cell, with the earlier measurements. Ignores cells that cannot be run. The cells must
  // outlive it.
  Rounds(const std::vector<Cell>& cells, const RunSettings& settings, const Report& report);

  // The forks of the next round of every group that continues; empty: all groups are done. `report` has a row
  // for each cell, with the existing measurements.
  std::vector<PlannedFork> next(const Report& report);

  // All forks that are known now, including those that next() returned.
  std::vector<PlannedFork> foreseen() const;

  // With `until` == clear: how each group with two cells or more ended. `interrupted`: by the user.
  std::vector<GroupEnd> ends(const Report& report, bool interrupted) const;

 private:
  struct Pair {
    std::size_t a = 0, b = 0;  // one cell: a == b
    int begun = 0;             // rounds of both
    std::size_t looks = 0;
    bool settled = false;  // at the last look
  };
  struct Group {
    std::string name{};
    std::vector<std::size_t> cells{};
    std::vector<Pair> pairs{};
    int next_round = 0;
    int left = 0;                       // rounds that are known to be needed
    std::vector<std::size_t> active{};  // the cells of the next one
  };
  // The published ratios of two cells join their groups.
  void join_compared(const Report& report);
  void plan(Group& group, const Report& report);
  int rounds_left(Pair& pair, const Report& report) const;

  const std::vector<Cell>& cells_;
  RunSettings settings_;
  std::vector<Group> groups_;
  std::vector<PlannedFork> given_;
};

}  // namespace assay

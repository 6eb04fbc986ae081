// How --mode best chooses among the modes and layouts of a backend: successive halving over paired rounds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/conductor/run/rounds.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Whether candidates of a work may differ in this axis: mode and layout.
bool is_searched(const Axis& axis);
// The part of the id that all candidates of a work share.
std::string work_id(const Axes& axes);

// The candidates of every work, as indices, in the order of the cells.
std::vector<std::vector<std::size_t>> candidates_of(const std::vector<Cell>& cells);

// Chooses the forks of the search. A round has one fork of each remaining candidate of a work, in an order drawn from
// (seed, work, round). All have three rounds; one that takes 1.5 times as long as the fastest in each of the first two
// leaves after these. The two fastest then have six more. A fork that others disturbed is replaced by another round for
// all, at most twice in each part. A candidate that fails or is wrong leaves, and the next one takes its place. A quick
// run has one round.
class BestSearch {
 public:
  BestSearch(const std::vector<Cell>& cells, const RunSettings& settings);

  // The forks of the next round of every work; empty: the search is over. `report` has a row for each cell.
  std::vector<PlannedFork> next(const Report& report);
  // Whether the candidate is one of the last two of its work.
  bool is_finalist(std::size_t cell) const;

  // The forks of a candidate that remains until the last two.
  static int first_rounds(const RunSettings& settings) { return settings.quick ? 1 : 3; }

 private:
  struct Work {
    std::vector<std::size_t> candidates{}, active{};
    int begun = 0;       // rounds
    int part_begin = 0;  // the first round of the present part
    bool is_final = false, is_over = false;
  };
  bool needs_round(const Work& work, const Report& report) const;
  void halve(Work& work, const Report& report) const;
  void advance(Work& work, const Report& report) const;

  RunSettings settings_;
  std::vector<Work> works_;
};

// Whether the candidate can be chosen: it was timed, and no fork or check of it failed.
bool is_eligible(const CellReport& row);

// The candidates of a work, the best first: by how long they remained, then by their times in the rounds that they
// share. Those that cannot be chosen come last.
std::vector<std::size_t> in_order(std::vector<std::size_t> candidates, const Report& report);

// The step time of a candidate over that of another, with an interval that holds for all pairs of the work together.
struct TrialRatio {
  double value = 1;
  std::optional<double> lower{}, upper{};  // absent if the scatter is not known
  int rounds = 0;                          // that both share; 0: the ratio of their medians
};

// Of each candidate to the first. The mean of the logarithms in shared rounds, with Student's t: all candidates are taken
// to scatter alike, or as the pair does if that is more; 98 % for all pairs together (Bonferroni). Disturbed forks do
// not count. Nothing for one without a time.
std::vector<std::optional<TrialRatio>> ratios_to_first(const std::vector<std::size_t>& candidates,
                                                       const Report& report);

// The median step time of the forks that were not disturbed; of all forks if all were.
std::optional<double> trial_step(const CellReport& row);

}  // namespace assay

#include "tests/simulation/made_runs.hpp"

#include <cmath>
#include <vector>

#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/compare/run_model.hpp"
#include "harness/core/io/philox.hpp"

namespace assay::simulation {
namespace {

double drawn(Philox& lot, bool heavy) {
  if (!heavy) return lot.normal();
  double squares = 0;
  for (int i = 0; i < 3; ++i) squares += std::pow(lot.normal(), 2);
  return lot.normal() /
         std::sqrt(squares);  // t with three degrees of freedom over its deviation, the root of three
}

void change_machine(std::vector<RunValues>& cells, Philox& lot) {
  const std::size_t forks = cells.front().size();
  const std::size_t length = 1 + lot.below(forks - 1), from = lot.below(forks - length + 1);
  for (std::size_t c = 0; c < cells.size(); c += 2) {
    const double longer = std::log(lot.uniform(1.3, 2));
    for (std::size_t fork = from; fork < from + length; ++fork) cells[c][fork] += longer;
  }
}

// The logarithms of the forks of each cell in one run.
std::vector<RunValues> run_of(const MadeDesign& design, Philox& lot) {
  constexpr double much = 5;
  const MadeNoise& noise = design.noise;
  const double common = noise.common * lot.normal();
  std::vector<RunValues> cells(static_cast<std::size_t>(design.cells));
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const bool uneven = static_cast<double>(c) < noise.uneven * design.cells;
    const double run = common + noise.runs * (uneven ? much : 1) * lot.normal();
    for (int fork = 0; fork < design.forks; ++fork)
      cells[c].push_back(run + noise.forks * drawn(lot, noise.heavy));
  }
  if (noise.changing > 0 && lot.uniform_double() < noise.changing) change_machine(cells, lot);
  return cells;
}

std::vector<ModelCell> cells_of(const MadeDesign& design, Philox& lot) {
  std::vector<ModelCell> cells(static_cast<std::size_t>(design.cells));
  for (int run = 0; run <= design.baselines; ++run) {
    std::vector<RunValues> values = run_of(design, lot);
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (run < design.baselines) {
        cells[c].base.push_back(std::move(values[c]));
        continue;
      }
      for (double& value : values[c])
        value += std::log1p(design.all) + (c == 0 ? std::log1p(design.change) : 0);
      cells[c].current = std::move(values[c]);
    }
  }
  return cells;
}

}  // namespace

Outcomes outcomes_of(const MadeDesign& design, int comparisons, std::uint64_t seed) {
  const double threshold = std::log1p(usual_threshold),
               detect = std::log1p(usual_detect_factor * usual_threshold);
  Philox lot(seed, "made runs");
  Outcomes outcomes;
  for (int i = 0; i < comparisons; ++i) {
    const ModelResult result = decide_runs(cells_of(design, lot), {},
                                           {.threshold = threshold,
                                            .confidence = usual_confidence,
                                            .prior_deviation = prior_run_deviation,
                                            .prior_degrees = prior_run_degrees});
    bool slower = false, undecided = result.shift && result.shift->estimate >= threshold;
    for (const auto& cell : result.cells) {
      const Verdict verdict = verdict_of(cell.value(), threshold, detect);
      slower |= verdict == Verdict::slower;
      undecided |= verdict == Verdict::inconclusive;
    }
    ++outcomes.comparisons;
    outcomes.found += verdict_of(result.cells.front().value(), threshold, detect) == Verdict::slower;
    outcomes.slower += slower;
    outcomes.undecided += !slower && undecided;
    outcomes.green += !slower && !undecided;
  }
  return outcomes;
}

}  // namespace assay::simulation

#include "harness/conductor/cli/exit_code.hpp"

#include <algorithm>

#include "harness/conductor/compare/ab.hpp"
#include "harness/conductor/compare/compare.hpp"

namespace assay::cli {

ExitCode exit_code(const Comparison& comparison) {
  if (!comparison.comparable()) return not_comparable;
  if (comparison.count(Verdict::slower) > 0 || comparison.count(Verdict::broken) > 0) return regression;
  const bool failed = std::ranges::any_of(comparison.cells, &CellVerdict::failed);
  if (comparison.count(Verdict::missing) > 0 || failed || comparison.compared == 0) return incomplete;
  if (comparison.shifted()) return inconclusive;
  if (!comparison.overlooked.contains(Overlooked::inconclusive) &&
      comparison.count(Verdict::inconclusive) > 0)
    return inconclusive;
  return fine;
}

ExitCode exit_code(const AbOutcome& outcome) {
  return outcome.signal != 0 ? incomplete : exit_code(outcome.comparison);
}

}  // namespace assay::cli

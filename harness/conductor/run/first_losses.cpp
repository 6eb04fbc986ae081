#include "harness/conductor/run/first_losses.hpp"

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr double max_difference = 0.05;
constexpr std::size_t min_compared_forks = 3;
constexpr std::int64_t max_compared_steps = 500;  // after more, correct backends may be further apart
constexpr std::string_view begins = "the loss after its first ";

void warn(Fork& fork, std::int64_t steps, double loss, double middle) {
  std::erase_if(fork.warnings, [](const std::string& warning) { return warning.starts_with(begins); });
  const double apart = std::abs(loss / middle - 1);
  if (apart <= max_difference) return;
  fork.warnings.push_back(fmt::format(
      "{}{}, {:.4g}, is {:.2g} % from the median of this round's backends, {:.4g}: it probably used other "
      "batches, parameters or rates",
      begins, plural(steps, "step"), loss, 100 * apart, middle));
}

}  // namespace

void compare_first_losses(std::span<CellReport* const> rows, int round) {
  std::map<std::int64_t, std::vector<std::pair<Fork*, double>>> by_steps;
  for (CellReport* row : rows)
    for (Fork& fork : row->forks) {
      if (fork.round != round || fork.status != Status::ok || fork.blocks.empty()) continue;
      const Block& first = fork.blocks.front();
      if (first.loss && *first.loss > 0 && first.steps <= max_compared_steps)
        by_steps[first.steps].emplace_back(&fork, *first.loss);
    }
  for (const auto& [steps, forks] : by_steps) {
    if (forks.size() < min_compared_forks) continue;
    std::vector<double> losses;
    for (const auto& [fork, loss] : forks) losses.push_back(loss);
    const double middle = median(losses);
    for (const auto& [fork, loss] : forks) warn(*fork, steps, loss, middle);
  }
}

}  // namespace assay

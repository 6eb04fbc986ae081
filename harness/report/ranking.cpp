#include "harness/report/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/core/statistics.hpp"
#include "harness/report/analysis.hpp"

namespace assay {
namespace {

using LogTimes = std::map<RoundKey, double>;

// One for each cell: the logarithm of its factor.
std::vector<double> factors_of_cells(const std::vector<LogTimes>& times) {
  constexpr int turns = 20;
  std::vector<double> of_cell(times.size(), 0);
  std::map<RoundKey, double> of_round;
  for (int turn = 0; turn < turns; ++turn) {
    std::map<RoundKey, std::vector<double>> left;
    for (std::size_t i = 0; i < times.size(); ++i)
      for (const auto& [round, time] : times[i]) left[round].push_back(time - of_cell[i]);
    for (const auto& [round, values] : left) of_round[round] = median(values);
    for (std::size_t i = 0; i < times.size(); ++i) {
      std::vector<double> own;
      for (const auto& [round, time] : times[i]) own.push_back(time - of_round.at(round));
      of_cell[i] = median(own);
    }
  }
  return of_cell;
}

// Which of two cells is clearly faster, and whether their rounds are enough to say that neither is.
class Pairs {
 public:
  explicit Pairs(std::span<const CellReport* const> cells)
      : faster_(cells.size(), std::vector<char>(cells.size())), enough_(faster_) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const auto ratio = time_ratio(*cells[i], *cells[j]);
        if (!ratio || !ratio->lower) continue;
        enough_[i][j] = enough_[j][i] = 1;
        faster_[i][j] = ratio->below_one();
        faster_[j][i] = ratio->above_one();
      }
    for (std::size_t k = 0; k < cells.size(); ++k)
      for (std::size_t i = 0; i < cells.size(); ++i)
        for (std::size_t j = 0; j < cells.size(); ++j)
          if (faster_[i][k] && faster_[k][j]) faster_[i][j] = 1;
  }

  bool is_faster(std::size_t i, std::size_t j) const { return faster_[i][j] && !faster_[j][i]; }
  bool are_known(std::size_t i, std::size_t j) const {
    return enough_[i][j] || is_faster(i, j) || is_faster(j, i);
  }

 private:
  std::vector<std::vector<char>> faster_, enough_;
};

std::vector<std::size_t> ordered(const Pairs& pairs, const std::vector<double>& factors) {
  std::vector<std::size_t> left(factors.size()), order;
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
  std::ranges::stable_sort(left, {}, [&](std::size_t i) { return factors[i]; });
  while (!left.empty()) {
    const auto next = std::ranges::find_if(left, [&](std::size_t i) {
      return std::ranges::none_of(left, [&](std::size_t j) { return pairs.is_faster(j, i); });
    });
    order.push_back(*next);
    left.erase(next);
  }
  return order;
}

// Those whose pairs are all known.
std::vector<std::size_t> comparable(const Pairs& pairs, std::vector<std::size_t> cells) {
  for (;;) {
    const auto unknown = [&](std::size_t i) {
      return std::ranges::count_if(cells, [&](std::size_t j) { return i != j && !pairs.are_known(i, j); });
    };
    auto worst = cells.end();
    for (auto cell = cells.begin(); cell != cells.end(); ++cell)  // of several, the slowest
      if (unknown(*cell) > 0 && (worst == cells.end() || unknown(*cell) >= unknown(*worst))) worst = cell;
    if (worst == cells.end()) return cells;
    cells.erase(worst);
  }
}

}  // namespace

Ranking rank_by_pairs(std::span<const CellReport* const> cells) {
  std::vector<LogTimes> times(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i)
    for (const auto& [round, time] : counted_times(*cells[i])) times[i][round] = std::log(time);
  const Pairs pairs(cells);
  Ranking ranking{.order = ordered(pairs, factors_of_cells(times)), .places = {}};
  ranking.places.resize(cells.size());
  const std::vector<std::size_t> ranked = comparable(pairs, ranking.order);
  if (ranked.size() < 2 && cells.size() > 1) return ranking;
  for (const std::size_t i : ranked) {
    const auto faster = std::ranges::count_if(ranked, [&](std::size_t j) { return pairs.is_faster(j, i); });
    const auto slower = std::ranges::count_if(ranked, [&](std::size_t j) { return pairs.is_faster(i, j); });
    ranking.places[i] = Places{static_cast<int>(1 + faster), static_cast<int>(std::ssize(ranked) - slower)};
  }
  return ranking;
}

}  // namespace assay

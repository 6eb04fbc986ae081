#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"

namespace assay {
namespace {

using ForkByRound = std::map<RoundKey, const Fork*>;

struct Timed {
  std::size_t cell = 0;
  ForkByRound forks{};
};

double step_of(const Fork& fork) { return fork_time(fork)->step_seconds; }

double median_step(const ForkByRound& forks) {
  std::vector<double> times;
  for (const auto& [round, fork] : forks) times.push_back(step_of(*fork));
  return median(times);
}

// The cells with such forks that are ok: with all of their threads, or with fewer.
std::vector<Timed> timed(std::span<const CellReport* const> cells, bool with_fewer) {
  std::vector<Timed> all;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    Timed one{.cell = i};
    for (const Fork& fork : cells[i]->forks)
      if (fork.status == Status::ok && fork_time(fork) &&
          contains(fork.flags, quality_flag::fewer_threads) == with_fewer)
        one.forks[round_of(fork)] = &fork;
    if (!one.forks.empty()) all.push_back(std::move(one));
  }
  return all;
}

// As the conductor has noted it.
std::optional<int> threads_of(const Fork& fork) {
  const auto found = fork.settings.find("fewer_threads");
  if (found == fork.settings.end()) return std::nullopt;
  int threads = 0;
  const std::string& text = found->second;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), threads);
  return read.ec == std::errc() ? std::optional(threads) : std::nullopt;
}

// A cell that only lacks undisturbed rounds, or rounds.
bool may_be_placed(const CellReport& cell) {
  const bool other_flags =
      std::ranges::any_of(cell.flags, [](const auto& flag) { return flag != quality_flag::disturbed; });
  return (cell.status == Status::ok || cell.reason_code == ReasonCode::forks_missing) && !other_flags &&
         is_equal_to_oracle(cell);
}

// Calls visit(fork of a, fork of b) for each round that both have.
template <typename Visit>
void for_each_pair(const Timed& a, const Timed& b, const Visit& visit) {
  for (const auto& [round, fork] : a.forks)
    if (const auto other = b.forks.find(round); other != b.forks.end()) visit(*fork, *other->second);
}

std::vector<double> ratios_of(const Timed& a, const Timed& b) {
  std::vector<double> ratios;
  for_each_pair(a, b,
                [&](const Fork& one, const Fork& other) { ratios.push_back(step_of(one) / step_of(other)); });
  return ratios;
}

PairedRatio without_interval(const std::vector<double>& ratios) {
  PairedRatio ratio = over_rounds(ratios);
  ratio.lower = ratio.upper = ratio.confidence = std::nullopt;
  return ratio;
}

// See ProvisionalRow::apart_from.
bool stays_apart(const Timed& slow, const Timed& fast) {
  std::size_t rounds = 0;
  bool apart = true;
  for_each_pair(slow, fast, [&](const Fork& one, const Fork& other) {
    ++rounds;
    const std::optional<double> least = undisturbed_step_at_least(one);
    apart = apart && least && *least > *mean_step(other);
  });
  return apart && rounds >= rounds_for_interval;
}

// Fastest first; those without a common round are left out.
std::vector<ProvisionalRow> rows_of(std::vector<Timed> cells) {
  const Timed fastest =
      *std::ranges::min_element(cells, {}, [](const Timed& one) { return median_step(one.forks); });
  std::erase_if(cells, [&](const Timed& one) { return ratios_of(one, fastest).empty(); });
  std::ranges::stable_sort(cells, {}, [&](const Timed& one) { return median(ratios_of(one, fastest)); });
  std::vector<ProvisionalRow> rows;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::vector<double> ratios = ratios_of(cells[i], cells.front());
    if (ratios.empty()) continue;
    ProvisionalRow row{
        .cell = cells[i].cell, .time = median_step(cells[i].forks), .to_first = without_interval(ratios)};
    for (std::size_t before = i; before-- > 0 && !row.apart_from;)
      if (stays_apart(cells[i], cells[before])) row.apart_from = cells[before].cell;
    rows.push_back(row);
  }
  return rows;
}

std::optional<Provisional> provisional_of(const Analysis& all, const AnalyzedGroup& group) {
  std::vector<const CellReport*> cells;
  std::vector<std::size_t> places;
  for (const std::size_t i : group.cells) {
    const CellReport& cell = all.report_cell(i);
    if (all.cells[i].report != all.cells[group.cells.front()].report ||
        cell.environment != all.report_cell(group.cells.front()).environment)
      return std::nullopt;
    if (!may_be_placed(cell)) continue;
    cells.push_back(&cell);
    places.push_back(i);
  }
  std::optional<Provisional> found = order_by_all_rounds(cells);
  if (!found || found->disturbed == 0) return std::nullopt;
  for (ProvisionalRow& row : found->rows) {
    row.cell = places[row.cell];
    if (row.apart_from) row.apart_from = places[*row.apart_from];
  }
  return found;
}

}  // namespace

std::optional<Provisional> order_by_all_rounds(std::span<const CellReport* const> cells) {
  std::vector<Timed> timed_cells = timed(cells, false);
  if (std::vector<Timed> fewer = timed(cells, true); fewer.size() > 1 && fewer.size() >= timed_cells.size())
    timed_cells = std::move(fewer);
  if (timed_cells.size() < 2) return std::nullopt;
  Provisional order{.threads = threads_of(*timed_cells.front().forks.begin()->second)};
  std::set<RoundKey> rounds, disturbed;
  for (const Timed& cell : timed_cells)
    for (const auto& [round, fork] : cell.forks) {
      rounds.insert(round);
      if (!counts(*fork)) disturbed.insert(round);
    }
  order.rounds = static_cast<int>(rounds.size());
  order.disturbed = static_cast<int>(disturbed.size());
  order.rows = rows_of(std::move(timed_cells));
  return order.rows.size() > 1 ? std::optional(std::move(order)) : std::nullopt;
}

void add_provisional(Analysis& all) {
  for (AnalyzedGroup& group : all.groups) {
    const auto ranked =
        std::ranges::count_if(group.cells, [&](std::size_t i) { return all.cells[i].rank.has_value(); });
    if (group.rounds > 1 || ranked > 1) continue;
    group.provisional = provisional_of(all, group);
    if (!group.provisional) continue;
    const std::vector<ProvisionalRow>& rows = group.provisional->rows;
    const auto place_of = [&](std::size_t cell) {
      return std::ranges::find(rows, cell, &ProvisionalRow::cell) - rows.begin();
    };
    if (ranked == 0) std::ranges::stable_sort(group.in_rank, {}, place_of);
  }
}

}  // namespace assay

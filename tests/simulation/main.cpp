// How often `assay compare` and `assay ab` are wrong, and how often they find a change: on made runs with known noise, and on
// recorded forks. Prints the tables of docs/measurements/gate.md; scripts/lab/simulate-gate puts them there.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/conductor/cli/exit_code.hpp"
#include "tests/simulation/made_runs.hpp"
#include "tests/simulation/replay.hpp"

namespace assay::simulation {
namespace {

constexpr std::uint64_t seed = 1;

std::string percent(int events, int of) {
  if (of == 0) return "-";
  const double share = 100.0 * events / of;
  if (events == 0) return "0 %";
  return share < 1 ? fmt::format("{:.1f} %", share) : fmt::format("{:.0f} %", share);
}

struct Case {
  const char* name;
  MadeNoise noise;
  int baselines = 5;
  double all = 0;
};

void print_made(int comparisons) {
  const std::array cases{
      Case{"2 % forks, 1 % runs", {}},
      Case{"the same, one baseline", {}, 1},
      Case{"the same, ten baselines", {}, 10},
      Case{"3.5 % forks, 1 % runs", {.forks = 0.035}},
      Case{"2 % forks, 2 % runs", {.runs = 0.02}},
      Case{"2 % forks with heavy tails, 1 % runs", {.heavy = true}},
      Case{"2 % forks, 1 % runs, 2 % of all cells", {.common = 0.02}},
      Case{"2 % forks, 1 % runs, all cells +10 %", {}, 5, 0.10},
      Case{"2 % forks, 1 % runs, a machine that changes", {.changing = 0.3}},
      Case{"2 % forks, 1 % runs, 5 % in a third of the cells", {.uneven = 1.0 / 3}},
  };
  fmt::print(
      "| noise | cells | unchanged: exit 0 | exit 3 | exit 6 | +10 % in one cell found | +20 % |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const Case& one : cases)
    for (const int cells : {1, 5, 12, 20, 50}) {
      MadeDesign design{.cells = cells, .baselines = one.baselines, .noise = one.noise, .all = one.all};
      const Outcomes none = outcomes_of(design, comparisons, seed);
      design.change = 0.10;
      const Outcomes ten = outcomes_of(design, comparisons, seed + 1);
      design.change = 0.20;
      const Outcomes twenty = outcomes_of(design, comparisons, seed + 2);
      fmt::print("| {} | {} | {} | {} | {} | {} | {} |\n", one.name, cells, percent(none.green, comparisons),
                 percent(none.slower, comparisons), percent(none.undecided, comparisons),
                 percent(ten.found, comparisons), percent(twenty.found, comparisons));
      std::fflush(stdout);
    }
}

std::string spread_text(const Recording& recording) {
  const std::vector<double> spreads = recording.spreads();
  const auto [least, most] = std::minmax_element(spreads.begin(), spreads.end());
  const std::string low = fmt::format("{:.1f}", 100 * *least), high = fmt::format("{:.1f}", 100 * *most);
  return low == high ? low + " %" : fmt::format("{} to {} %", low, high);
}

// The cells of one comparison: all of them, or so many at random.
std::vector<std::size_t> drawn_cells(std::size_t all, std::size_t count, Philox& lot) {
  std::vector<std::size_t> cells(all);
  std::iota(cells.begin(), cells.end(), 0U);
  lot.shuffle(std::span(cells));
  cells.resize(count);
  return cells;
}

// What came out of the comparisons of one row of a table.
struct Row {
  static constexpr std::array effects{0.10, 0.30};
  int comparisons = 0, green = 0, slower = 0, undecided = 0, planted = 0;
  std::array<int, effects.size()> found{};

  // Compares the cells with these indices, and again with each change planted in each of the first `plants` of them.
  void add(const Contest& contest, const std::vector<std::size_t>& cells, std::size_t plants) {
    const int code = cli::exit_code(compared(contest, {}, cells));
    ++comparisons;
    green += code == cli::fine;
    slower += code == cli::regression;
    undecided += code == cli::inconclusive;
    for (std::size_t plant = 0; plant < plants; ++plant, ++planted)
      for (std::size_t i = 0; i < effects.size(); ++i) found[i] += shows(contest, cells, plant, effects[i]);
  }

  std::string text() const {
    return fmt::format("{} | {} | {} | {} | {} | {}", comparisons, percent(green, comparisons),
                       percent(slower, comparisons), percent(undecided, comparisons),
                       percent(found[0], planted), percent(found[1], planted));
  }
};

// `name`: of the recording, and how its forks scatter.
void print_replayed(const std::string& name, const std::vector<Report>& runs, std::size_t cells,
                    int baselines, int draws) {
  const std::size_t recorded = runs.front().cells.size();
  Philox lot(seed, fmt::format("replay/{}/{}", name, cells));
  const auto found = contests(runs, baselines);
  // Of one cell: each of them once.
  const int each = cells == 1          ? static_cast<int>(recorded)
                   : cells == recorded ? 1
                                       : std::max(1, draws / static_cast<int>(found.size() + 1));
  Row row;
  for (const Contest& contest : found)
    for (int draw = 0; draw < each; ++draw)
      // There are few comparisons of all cells.
      row.add(contest,
              cells == 1 ? std::vector{static_cast<std::size_t>(draw)} : drawn_cells(recorded, cells, lot),
              cells == recorded ? std::min<std::size_t>(recorded, 20) : 1);
  fmt::print("| {} | {} | {} | {} | {} |\n", name, runs.size(), cells, baselines, row.text());
  std::fflush(stdout);
}

void print_replays(const std::vector<Recording>& all, int draws) {
  fmt::print(
      "\n| recording | spread | runs | cells | baselines | comparisons | exit 0 | exit 3 | exit 6 | +10 % found | +30 % |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Recording& recording : all) {
    const std::vector<Report> runs = runs_of(recording, {});
    std::set<std::size_t> counts{recording.cells()};
    for (const std::size_t cells : {1, 5, 12, 20})
      if (cells < recording.cells()) counts.insert(cells);
    for (const int baselines : {1, 5})
      for (const std::size_t cells : counts)
        print_replayed(fmt::format("{} | {}", recording.name, spread_text(recording)), runs, cells, baselines,
                       draws);
  }
}

// `cells` steady ones. 0: all that were recorded, with the change in a steady one.
Row steady_row(const Recording& recording, const std::vector<Report>& runs, std::size_t cells, ChosenBy by,
               int draws) {
  Philox lot(seed, fmt::format("steady/{}/{}", recording.name, cells));
  Row row;
  for (const Contest& contest : contests(runs, usual_runs)) {
    const std::vector<std::size_t> steady = steady_cells(choosing_runs(runs, contest, by));
    if (cells > steady.size()) continue;
    const std::size_t each = cells < 2 ? steady.size() : static_cast<std::size_t>(draws);
    for (std::size_t draw = 0; draw < each; ++draw) {
      std::vector<std::size_t> chosen;
      if (cells < 2)
        chosen = {steady[draw]};
      else
        for (const std::size_t place : drawn_cells(steady.size(), cells, lot))
          chosen.push_back(steady[place]);
      if (cells == 0)
        for (std::size_t cell = 0; cell < recording.cells(); ++cell)
          if (cell != steady[draw]) chosen.push_back(cell);
      row.add(contest, chosen, 1);
    }
  }
  return row;
}

Row mixed_row(const Recording& recording, const std::vector<Report>& runs, std::size_t cells, ChosenBy by,
              int draws) {
  Philox lot(seed, fmt::format("mixed/{}/{}", recording.name, cells));
  Row row;
  for (int draw = 0; draw < draws; ++draw) {
    const std::vector<Report> mixed = recombined(runs, usual_runs, cells, by, lot);
    if (!mixed.empty()) row.add(contests(mixed, usual_runs).front(), {}, 1);
  }
  return row;
}

void print_steady(const std::vector<Recording>& all, int draws) {
  fmt::print(
      "\n| recording | steady by | cells | comparisons | exit 0 | exit 3 | exit 6 | +10 % found | +30 % |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (const Recording& recording : all) {
    if (recording.name != "fifty") continue;  // the others have few steady cells
    const std::vector<Report> runs = runs_of(recording, {});
    for (const auto& [by, name] :
         {std::pair(ChosenBy::other_runs, "other runs"), std::pair(ChosenBy::all_runs, "all runs")}) {
      const auto print = [&, name = name](const std::string& cells, const Row& row) {
        fmt::print("| {} | {} | {} | {} |\n", recording.name, name, cells, row.text());
        std::fflush(stdout);
      };
      for (const std::size_t cells : {1, 5, 12, 18})
        print(std::to_string(cells), steady_row(recording, runs, cells, by, draws / 4));
      print(fmt::format("all {}", recording.cells()), steady_row(recording, runs, 0, by, draws));
      for (const std::size_t cells : {20, 50})
        print(fmt::format("{}, mixed", cells), mixed_row(recording, runs, cells, by, draws / 2));
    }
  }
}

void print_ab(const std::vector<Recording>& all, int draws) {
  fmt::print(
      "\n| recording | false alarms, of {} | +10 % found | +30 % found |\n"
      "|---|---|---|---|\n",
      draws);
  for (const Recording& recording : all) {
    Philox lot(seed, "ab/" + recording.name);
    std::array<int, 3> slower{};
    int cells = 0, alarms = 0;
    constexpr std::array effects{0.0, 0.10, 0.30};
    for (int draw = 0; draw < draws; ++draw)
      for (std::size_t i = 0; i < effects.size(); ++i) {
        const Session& session = recording.sessions[lot.below(recording.sessions.size())];
        const SequentialResult result = by_ab(session, {}, effects[i], lot);
        const auto count = std::ranges::count(result.cells, Verdict::slower, &CellVerdict::verdict);
        slower[i] += static_cast<int>(count);
        if (i == 0) {
          alarms += count > 0;
          cells += static_cast<int>(result.cells.size());
        }
      }
    fmt::print("| {} | {} | {} | {} |\n", recording.name, percent(alarms, draws), percent(slower[1], cells),
               percent(slower[2], cells));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace assay::simulation

int main(int argc, char** argv) {
  using namespace assay::simulation;
  if (argc != 3) {
    fmt::print(stderr, "usage: simulate_gate FILE_OF_RECORDINGS COMPARISONS\n");
    return 2;
  }
  const std::vector<Recording> recorded = read_noise(argv[1]);
  const int comparisons = std::stoi(argv[2]);
  print_made(comparisons);
  print_replays(recorded, comparisons);
  print_steady(recorded, comparisons);
  print_ab(recorded, comparisons);
}

// Replays recorded forks as comparisons and counts how often each rule is wrong and how often it finds a
// change. Prints the table of docs/explanation/statistics.md; scripts/simulate-gate puts it there.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/core/statistics.hpp"
#include "tests/simulation/replay.hpp"
#include "tests/simulation/u_test.hpp"

namespace assay::simulation {
namespace {

std::string percent(int count, int of) {
  const double share = 100.0 * count / std::max(1, of);
  return count == 0 ? "0" : share < 1 ? fmt::format("{:.1f}", share) : fmt::format("{:.0f}", share);
}

// Comparisons of 20 cells without any change: in how many of them a rule calls one or more slower.
struct Alarms {
  int comparisons = 0, u_test = 0, u_test_cells = 0, cells = 0, compare = 0, calibrated = 0, ab = 0;
};

Alarms alarms(const Series& series, int comparisons, double threshold, std::uint64_t seed) {
  Design design;
  design.threshold = threshold;
  Design sequential = design;
  sequential.confidence = 0.95;  // as `assay ab` has it: a confirmation follows
  Philox lot(seed, "alarms/" + series.name + fmt::format("/{}", threshold));
  Alarms found;
  found.comparisons = comparisons;
  for (int i = 0; i < comparisons; ++i) {
    bool u_test = false, compare = false, with_calibration = false, ab = false;
    const Places places = two_places(series, design, lot);
    const std::vector<RunSpread> between = calibrated(series, design, lot);
    for (int cell = 0; cell < design.cells; ++cell) {
      const TwoRuns runs = two_runs(series, design, places, cell, 0);
      const bool flagged = flagged_by_u_test(runs);
      found.u_test_cells += flagged;
      ++found.cells;
      u_test |= flagged;
      compare |= by_compare(runs, design, {}).verdict == Verdict::slower;
      with_calibration |=
          by_compare(runs, design, between[static_cast<std::size_t>(cell)]).verdict == Verdict::slower;
      ab |= by_ab(series, sequential, 0, lot).verdict.verdict == Verdict::slower;
    }
    found.u_test += u_test;
    found.compare += compare;
    found.calibrated += with_calibration;
    found.ab += ab;
  }
  return found;
}

struct Power {
  int trials = 0, compare = 0, calibrated = 0, ab = 0;
  int forks_asked = 0;  // the median of what an undecided comparison says it would take
  int rounds = 0;       // the median that ab took
};

Power power(const Series& series, int trials, double effect, double threshold, std::uint64_t seed) {
  Design design;
  design.threshold = threshold;
  Design sequential = design;
  sequential.confidence = 0.95;
  Philox lot(seed, "power/" + series.name + fmt::format("/{}/{}", effect, threshold));
  Power found;
  found.trials = trials;
  std::vector<double> asked, rounds;
  for (int i = 0; i < trials; ++i) {
    const int cell = i % design.cells;
    const TwoRuns runs = two_runs(series, design, two_places(series, design, lot), cell, effect);
    const CellVerdict verdict = by_compare(runs, design, {});
    found.compare += verdict.verdict == Verdict::slower;
    if (verdict.verdict == Verdict::inconclusive) asked.push_back(verdict.forks_needed.value_or(1000));
    const RunSpread between = calibrated(series, design, lot)[static_cast<std::size_t>(cell)];
    found.calibrated += by_compare(runs, design, between).verdict == Verdict::slower;
    const SequentialResult result = by_ab(series, sequential, effect, lot);
    found.ab += result.verdict.verdict == Verdict::slower;
    rounds.push_back(result.rounds);
  }
  if (!asked.empty()) found.forks_asked = static_cast<int>(median(asked));
  found.rounds = static_cast<int>(median(rounds));
  return found;
}

void print_alarms(const std::vector<Series>& all, int comparisons, std::uint64_t seed) {
  fmt::print(
      "| recorded noise | forks | spread | U test, of cells | U test | compare | compare, calibrated | ab |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const Series& series : all) {
    const Alarms found = alarms(series, comparisons, 0.05, seed);
    fmt::print("| {} | {} | {:.1f} % | {} % | {} % | {} % | {} % | {} % |\n", series.name,
               series.forks.size(), 100 * series.spread(), percent(found.u_test_cells, found.cells),
               percent(found.u_test, comparisons), percent(found.compare, comparisons),
               percent(found.calibrated, comparisons), percent(found.ab, comparisons));
    std::fflush(stdout);
  }
}

void print_power(const std::vector<Series>& all, int trials, std::uint64_t seed) {
  fmt::print(
      "\n| recorded noise | change, threshold | compare | compare, calibrated | forks it asks for | ab | "
      "rounds of ab |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const Series& series : all)
    for (const auto& [effect, threshold] : {std::pair{0.10, 0.05}, std::pair{0.05, 0.02}}) {
      const Power found = power(series, trials, effect, threshold, seed);
      fmt::print("| {} | +{:.0f} %, {:.0f} % | {} % | {} % | {} | {} % | {} |\n", series.name, 100 * effect,
                 100 * threshold, percent(found.compare, trials), percent(found.calibrated, trials),
                 found.forks_asked == 0      ? "-"
                 : found.forks_asked >= 1000 ? "more than 1000"
                                             : std::to_string(found.forks_asked),
                 percent(found.ab, trials), found.rounds);
      std::fflush(stdout);
    }
}

int run(int argc, char** argv) {
  CLI::App app("Replays recorded forks as comparisons");
  std::string noise, filter;
  int comparisons = 1000;
  double scale = 0.02;
  std::uint64_t seed = 1;
  std::vector<double> first, second;
  app.add_option("--noise", noise, "tests/noise/forks.json");
  app.add_option("--comparisons", comparisons, "Of 20 cells without a change; as many cells with one [1000]");
  app.add_option("--seed", seed);
  app.add_option("--scale", scale, "Also the quiet recordings and the stabs, scaled to this spread [0.02]");
  app.add_option("--filter", filter, "Only series whose name holds TEXT");
  app.add_option("--u-test", first, "Instead: print p of the U test of these values and --against");
  app.add_option("--against", second);
  CLI11_PARSE(app, argc, argv);
  if (!first.empty()) {
    fmt::print("{:.17g}\n", mann_whitney_p(first, second));
    return 0;
  }
  std::vector<Series> all = read_noise(noise);
  // What a calmer machine of each kind would record.
  const std::size_t recorded = all.size();
  for (std::size_t i = 0; i < recorded && scale > 0; ++i) {
    if (all[i].kind != "quiet" && all[i].kind != "tails") continue;
    Series calm = scaled(all[i], scale);
    calm.name += fmt::format(", scaled to {:.3g} %", 100 * scale);
    all.push_back(std::move(calm));
  }
  std::erase_if(all, [&](const Series& series) { return series.name.find(filter) == std::string::npos; });
  print_alarms(all, comparisons, seed);
  print_power(all, comparisons, seed);
  return 0;
}

}  // namespace
}  // namespace assay::simulation

int main(int argc, char** argv) { return assay::simulation::run(argc, argv); }

// Replays recorded forks as comparisons and counts how often each rule is wrong and how often it finds a
// change. Prints the tables of docs/explanation/statistics.md; scripts/lab/simulate-gate puts them there.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/core/statistics.hpp"
#include "tests/simulation/replay.hpp"

namespace assay::simulation {
namespace {

constexpr std::uint64_t seed = 1;

// How often something happened.
struct Share {
  int events = 0, of = 0;

  void count(bool happened) {
    events += happened;
    ++of;
  }
  std::string percent() const {
    if (of == 0) return "-";
    const double share = 100.0 * events / of;
    if (events == 0) return "0 %";
    return share < 1 ? fmt::format("{:.1f} %", share) : fmt::format("{:.0f} %", share);
  }
  std::string text() const { return events == 0 ? percent() : fmt::format("{} ({})", events, percent()); }
};

bool any_slower(const Comparison& comparison) { return comparison.count(Verdict::slower) > 0; }

bool any_slower(const std::vector<CellVerdict>& cells) {
  return std::ranges::any_of(cells, [](const CellVerdict& cell) { return cell.verdict == Verdict::slower; });
}

int runs_in(const Runs& runs) {
  int sum = 0;
  for (const auto& session : runs) sum += static_cast<int>(session.size());
  return sum;
}

// Comparisons without any change: in how many of them a rule calls one cell or more slower.
struct Alarms {
  int runs = 0;
  Share compare, calibrated, ab;
};

Alarms alarms(const Recording& recording, int draws) {
  const Design design;
  Alarms found;
  for (const Split& split : splits(recording, design)) {
    found.runs += runs_in(split.judged);
    const auto calibration = calibration_by(split.calibrating, design);
    for (const TwoRuns& two : pairs(split.judged)) {
      found.compare.count(any_slower(compared(two.base, two.current, design)));
      if (calibration)
        found.calibrated.count(any_slower(compared(two.base, two.current, design, calibration)));
    }
  }
  Philox lot(seed, "alarms/" + recording.name);
  for (int draw = 0; draw < draws; ++draw) {
    const Session& session = recording.sessions[lot.below(recording.sessions.size())];
    found.ab.count(any_slower(by_ab(session, design, 0, lot).cells));
  }
  return found;
}

// For cells that became slower.
struct Power {
  Share compare, calibrated, ab;
  std::vector<double> forks_asked;  // by undecided comparisons; 1000 where no number would do
  std::vector<double> rounds;       // that ab took
};

void count_slower(Share& share, const Comparison& comparison) {
  for (const CellVerdict& cell : comparison.cells) share.count(cell.verdict == Verdict::slower);
}

Power power(const Recording& recording, double effect, double threshold, int draws) {
  Design design;
  design.threshold = threshold;
  Power found;
  for (const Split& split : splits(recording, design)) {
    const auto calibration = calibration_by(split.calibrating, design);
    for (const TwoRuns& two : pairs(split.judged)) {
      const Report slower = slowed(two.current, effect);
      const Comparison plain = compared(two.base, slower, design);
      count_slower(found.compare, plain);
      if (calibration) count_slower(found.calibrated, compared(two.base, slower, design, calibration));
      for (const CellVerdict& cell : plain.cells)
        if (cell.verdict == Verdict::inconclusive)
          found.forks_asked.push_back(cell.forks_needed.value_or(1000));
    }
  }
  Philox lot(seed, "power/" + recording.name + fmt::format("/{}/{}", effect, threshold));
  for (int draw = 0; draw < draws; ++draw) {
    const Session& session = recording.sessions[lot.below(recording.sessions.size())];
    const SequentialResult result = by_ab(session, design, effect, lot);
    for (std::size_t cell = 0; cell < result.cells.size(); ++cell) {
      found.ab.count(result.cells[cell].verdict == Verdict::slower);
      found.rounds.push_back(result.rounds[cell]);
    }
  }
  return found;
}

std::string spread_text(const Recording& recording) {
  const std::vector<double> spreads = recording.spreads();
  const auto [least, most] = std::minmax_element(spreads.begin(), spreads.end());
  const std::string low = fmt::format("{:.1f}", 100 * *least), high = fmt::format("{:.1f}", 100 * *most);
  return low == high ? low + " %" : fmt::format("{} to {} %", low, high);
}

// The share of recordings with any alarm.
struct Summary {
  Share compare, calibrated, ab;

  void count(const Alarms& found) {
    compare.count(found.compare.events > 0);
    if (found.calibrated.of > 0) calibrated.count(found.calibrated.events > 0);
    ab.count(found.ab.events > 0);
  }
};

std::string recordings_text(const Share& share) {
  return fmt::format("{} of {} (at most {:.0f} %)", share.events, share.of,
                     100 * upper_share(share.events, share.of, 0.95));
}

// `calm`: made from recordings, so they are not additional recordings.
void print_alarms(const std::vector<Recording>& recorded, const std::vector<Recording>& calm, int draws) {
  fmt::print(
      "| recording | sessions | flags | cells | spread | runs | comparisons | compare | compare, calibrated | ab, of "
      "{} |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n",
      draws);
  Summary summary;
  const auto row = [&](const Recording& recording) {
    const Alarms found = alarms(recording, draws);
    fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", recording.name,
               recording.sessions.size() == 1 ? "1, halved" : std::to_string(recording.sessions.size()),
               recording.flags ? "yes" : "no", recording.cells(), spread_text(recording), found.runs,
               found.compare.of, found.compare.text(), found.calibrated.text(), found.ab.text());
    std::fflush(stdout);
    return found;
  };
  for (const Recording& recording : recorded) summary.count(row(recording));
  for (const Recording& recording : calm) row(recording);
  fmt::print(
      "\nRecordings with a false alarm in any of their comparisons:\n\n"
      "- `compare`: {}\n- `compare`, calibrated: {}\n- `ab`: {}\n\n"
      "The brackets have the largest share of such recordings that these counts allow\n"
      "(Clopper and Pearson, 95 %).\n",
      recordings_text(summary.compare), recordings_text(summary.calibrated), recordings_text(summary.ab));
}

std::string forks_text(const std::vector<double>& asked) {
  if (asked.empty()) return "-";
  const double middle = median(asked);
  return middle >= 1000 ? "more than 1000" : fmt::format("{:.0f}", middle);
}

void print_power(const std::vector<Recording>& all, int draws) {
  fmt::print(
      "\n| recording | change, threshold | compare | compare, calibrated | forks it asks for | ab | rounds of ab |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const Recording& recording : all)
    for (const auto& [effect, threshold] :
         std::array{std::pair{0.30, 0.05}, std::pair{0.10, 0.05}, std::pair{0.05, 0.02}}) {
      const Power found = power(recording, effect, threshold, draws);
      fmt::print("| {} | +{:.0f} %, {:.0f} % | {} | {} | {} | {} | {:.0f} |\n", recording.name, 100 * effect,
                 100 * threshold, found.compare.percent(), found.calibrated.percent(),
                 forks_text(found.forks_asked), found.ab.percent(), median(found.rounds));
      std::fflush(stdout);
    }
}

void run(const std::string& noise, int draws) {
  std::vector<Recording> recorded = read_noise(noise), calm;
  // Recordings as a calmer machine of each kind would make them.
  for (const Recording& one : recorded) {
    if (one.kind != "quiet" && one.kind != "tails") continue;
    calm.push_back(scaled(one, 0.02));
    calm.back().name += ", scaled to 2 %";
  }
  print_alarms(recorded, calm, draws);
  recorded.insert(recorded.end(), calm.begin(), calm.end());
  print_power(recorded, draws);
}

}  // namespace
}  // namespace assay::simulation

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: simulate_gate FILE_OF_RECORDINGS DRAWS_OF_AB\n");
    return 2;
  }
  assay::simulation::run(argv[1], std::stoi(argv[2]));
}

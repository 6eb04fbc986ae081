// How noisy this machine is: what reports of one and the same build differ by.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/conductor/compare/time_judge.hpp"
#include "harness/conductor/print/table.hpp"
#include "harness/report/report.hpp"

namespace assay {

struct CellNoise {
  std::string id, metric;
  int runs = 0;
  int forks = 0;            // of the run with the fewest
  double within_runs = 0;   // standard deviation of ln(time) between forks of a run
  double between_runs = 0;  // of the runs' own means, beyond what their forks explain; 0 where that is all
  double floor = 0;         // the largest ratio - 1 that two runs of one build are to be expected to show
  int comparisons = 0;      // of two runs each
  int alarms = 0;  // of them called slower or faster at the calibration's threshold, as `compare` would
  // The change that is called four times of five, by the forks of a side: 2, 4, 8, ...
  std::map<int, double> visible;
  std::optional<int> forks_wanted;  // a side, that show twice the calibration's threshold so often
};

// By cell id; "" holds for all others.
using RunSpreads = std::map<std::string, RunSpread, std::less<>>;

struct CalibrationSettings {
  double threshold = 0.05;
  double confidence = 0.95;  // of all cells together, as `compare` takes it
  std::string metric;        // empty: main_metric() of each cell
};

struct Calibration {
  std::string fingerprint, machine, kernel;
  std::string made;  // ISO 8601, UTC
  double threshold = 0, confidence = 0;
  int runs = 0;
  std::vector<CellNoise> cells;  // in the order of the reports
  // What the cells suggest together: forks a side that show twice the threshold in nine of ten of them, and the
  // smallest threshold of 1, 2, 3, 5, 7, 10, 15, 20, 30 and 50 % of which 12 forks show twice as much in nine of ten. A
  // change that equals the threshold is called half of the time, however many forks there are.
  std::optional<int> forks;
  std::optional<double> suggested_threshold;

  int comparisons() const;
  int alarms() const;
  // Rounds of `assay ab` that show twice the threshold in the noisiest of these cells (in the median cell of all where
  // none of them was calibrated) four times of five, each interval `sure`; nothing where 1000 do not.
  std::optional<int> rounds_for(const std::vector<std::string>& ids, double threshold, double sure) const;
  // By metric: of each cell its own, or that of all cells together (the root of the mean square), whichever is larger;
  // under "" the latter, for cells that were not calibrated.
  std::map<std::string, RunSpreads, std::less<>> between_runs() const;
};

// Of two or more reports with the same cells, made one after another by one build on one machine. Throws
// ConfigError where they are fewer, come from machines that differ, or have no cell in common that is ok with
// two forks.
Calibration calibrate(std::span<const Report> runs, const CalibrationSettings& settings);

// Of one cell: `runs` holds one positive value a fork, two or more of two or more runs. How forks and runs
// scatter alone; and all of it, with the confidence of the cell alone.
CellNoise scatter_of(std::string id, std::string metric, const std::vector<std::vector<double>>& runs);
CellNoise cell_noise(std::string id, std::string metric, const std::vector<std::vector<double>>& runs,
                     double threshold, double confidence);

// {"schema": "assay-calibration/1", ...}. Reading throws JsonError.
nlohmann::json to_json(const Calibration& calibration);
Calibration parse_calibration(std::string text, std::string_view where);
Calibration read_calibration(const std::filesystem::path& file);

inline constexpr int calibration_days = 30;
// Why it says nothing of the machine of this environment any more; empty: it does. now: ISO 8601, UTC.
std::string out_of_date(const Calibration& calibration, const nlohmann::json& environment,
                        std::string_view now);

// Where the calibration of a machine is looked for: <cache folder>/calibrations/<fingerprint>.json.
std::filesystem::path calibration_place(std::string_view fingerprint);

Table calibration_table(const Calibration& calibration);

}  // namespace assay

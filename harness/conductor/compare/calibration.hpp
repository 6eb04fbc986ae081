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
  // That `confidence` and 80 % power allow, with the forks of a side; over 0: 2, 4, 8, ... forks a side.
  std::map<int, double> visible;
  std::optional<int> forks_wanted;  // a side, that show a change of the calibration's threshold
};

struct CalibrationSettings {
  double threshold = 0.05;
  double confidence = 0.99;  // of all cells together, as `compare` takes it
  std::string metric;        // empty: main_metric() of each cell
};

struct Calibration {
  std::string fingerprint, machine;
  std::string made;  // ISO 8601, UTC
  double threshold = 0, confidence = 0;
  int runs = 0;
  std::vector<CellNoise> cells;  // in the order of the reports
  // What the cells suggest together: forks a side that show the threshold in nine of ten of them, and the
  // smallest of 1, 2, 3, 5, 7, 10, 15, 20, 30 and 50 % that 12 forks show in nine of ten.
  std::optional<int> forks;
  std::optional<double> suggested_threshold;

  int comparisons() const;
  int alarms() const;
  // Rounds of `assay ab` that show a `change` in the noisiest of these cells (in the median cell of
  // all where none of them was calibrated), each interval `sure`; nothing where 1000 do not.
  std::optional<int> rounds_for(const std::vector<std::string>& ids, double change, double sure) const;
  // Standard deviation between runs by cell id: its own, or that of all cells together (the root of the mean
  // square), whichever is larger; under "" the latter, for cells that were not calibrated.
  std::map<std::string, double, std::less<>> between_runs() const;
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

// Where the calibration of a machine is looked for: <cache folder>/calibrations/<fingerprint>.json.
std::filesystem::path calibration_place(std::string_view fingerprint);

Table calibration_table(const Calibration& calibration);

}  // namespace assay

// How noisy this machine is: what reports of one and the same build differ by.
#pragma once

#include <cstdint>
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
  int sessions = 0;
  int runs = 0;             // of all of them
  int forks = 0;            // of the run with the fewest
  double within_runs = 0;   // standard deviation of ln(time) between forks of a run
  double between_runs = 0;  // of the runs' own means, beyond what their forks explain; 0 where that is all
  int degrees = 0;          // of freedom of that estimate
  double floor = 0;         // the largest ratio - 1 that two runs of one build are to be expected to show
  int comparisons = 0;      // of two runs each
  int alarms = 0;  // of them called slower or faster at the calibration's threshold, as `compare` would
  // The change that is called four times of five, by the forks of a side: 2, 4, 8, ...
  std::map<int, double> visible;
  std::optional<int> forks_wanted;  // a side, that show twice the calibration's threshold so often
};

// What one session measured of a cell.
struct CellRuns {
  std::string id, metric;
  std::map<std::string, std::string> measured_as;  // of doubt.hpp
  std::vector<std::vector<double>> runs;           // one positive value a fork, two or more a run
};

// What one start of `assay calibrate` added.
struct CalibrationSession {
  std::string made;                             // ISO 8601, UTC: when its first run began
  std::string kernel;                           // of the machine then
  std::map<std::string, std::string> identity;  // of the machine and the build: identity_of()
  std::vector<CellRuns> cells;
};

// By cell id; "" holds for all others.
using RunSpreads = std::map<std::string, RunSpread, std::less<>>;

inline constexpr int usual_runs = 5;  // of a session

struct CalibrationSettings {
  double threshold = usual_threshold;
  double confidence = usual_confidence;  // of all cells together, as `compare` takes it
  std::string metric;                    // empty: main_metric() of each cell
};

struct Calibration {
  std::string fingerprint, machine;
  std::string made;  // of its newest session
  double threshold = 0, confidence = 0;
  std::vector<CalibrationSession> sessions;  // in the order in which they were added; not empty
  std::vector<CellNoise> cells;              // what they say together, in the order of the reports
  // What the cells suggest together: forks a side that show twice the threshold in nine of ten of them, and the
  // smallest threshold of 1, 2, 3, 5, 7, 10, 15, 20, 30 and 50 % of which 12 forks show twice as much in nine of ten. A
  // change that equals the threshold is called half of the time, however many forks there are.
  std::optional<int> forks;
  std::optional<double> suggested_threshold;

  std::int64_t comparisons() const;
  std::int64_t alarms() const;
  // Rounds of `assay ab` that show twice the threshold in the noisiest of these cells (in the median cell of all where
  // none of them was calibrated) four times of five, each interval `sure`; nothing where 1000 do not. An empty metric is
  // the one by which each cell was calibrated first.
  std::optional<int> rounds_for(const std::vector<std::string>& ids, double threshold, double sure,
                                const std::string& metric = {}) const;
  // By metric: of each cell its own, or that of all cells together (the root of the mean square), whichever is larger;
  // under "" the latter, for cells that were not calibrated.
  std::map<std::string, RunSpreads, std::less<>> between_runs() const;
};

// Of reports with the same cells, made one after another by one build on one machine, in one way. Throws ConfigError if
// they differ in one of these, if no cell of theirs is ok with two forks or more, or if no cell has two such runs. The second form adds a session
// to those of an earlier calibration; sessions that are out_of_date() by then are left out.
Calibration calibrate(std::span<const Report> runs, const CalibrationSettings& settings);
Calibration appended(const Calibration& earlier, std::span<const Report> runs,
                     const CalibrationSettings& settings);

// Throws ConfigError if the report is of another machine or build than the calibration, or measured one of its cells in
// another way. A report without cells asks for the machine and the build only.
void require_same_experiment(const Calibration& calibration, const Report& report);

// What these sessions say together. Throws ConfigError if no cell has two runs.
Calibration calibration_of(std::vector<CalibrationSession> sessions, std::string fingerprint,
                           std::string machine, const CalibrationSettings& settings);

// {"schema": "assay-calibration/2", ...}. Reading throws JsonError.
nlohmann::json to_json(const Calibration& calibration);
Calibration parse_calibration(std::string text, std::string_view where);
Calibration read_calibration(const std::filesystem::path& file);

inline constexpr int calibration_days = 30;
// Why a session says nothing of the machine of this environment any more; empty: it does. now: ISO 8601, UTC.
std::string out_of_date(const CalibrationSession& session, const nlohmann::json& environment,
                        std::string_view now);

// What the sessions that are not out of date say together; nothing where they have no cell with two runs.
struct InForce {
  std::optional<Calibration> calibration;
  std::vector<std::string> left_out;  // why, for each session that is
};
InForce in_force(const Calibration& calibration, const nlohmann::json& environment, std::string_view now);

// Where the calibration of a machine is looked for: <cache folder>/calibrations/<fingerprint>.json.
std::filesystem::path calibration_place(std::string_view fingerprint);

Table calibration_table(const Calibration& calibration);

}  // namespace assay

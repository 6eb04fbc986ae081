// The noise of this machine: how reports of the same build differ.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/compare/time_decision.hpp"
#include "harness/conductor/print/table.hpp"
#include "harness/report/report.hpp"

namespace assay {

struct CellNoise {
  std::string id, metric;
  int sessions = 0;
  int runs = 0;            // of all sessions
  int forks = 0;           // minimum over the runs
  double within_runs = 0;  // standard deviation of ln(time) between forks of a run
  double between_runs =
      0;  // the same between runs of a cell, of all cells with the metric together (run_model.hpp)
  // The change that 80 % of comparisons with usual_runs baselines report, by the number of forks per run: 2, 4, 8, ...
  std::map<int, double> visible;
  std::optional<int> forks_wanted;  // per run, to report twice the threshold in 80 % of such comparisons
};

// The measurements of one cell in one session.
struct CellRuns {
  std::string id, metric;
  std::map<std::string, std::string> measured_as;  // see doubt.hpp
  std::vector<std::vector<double>> runs;           // one positive value per fork, two or more per run
};

// The measurements that one start of `assay calibrate` added.
struct CalibrationSession {
  std::string made;                             // ISO 8601, UTC: when its first run began
  MachineRecord machine;                        // machine_identity()
  std::map<std::string, std::string> software;  // software_of()
  std::vector<CellRuns> cells;
};

inline constexpr int usual_runs = 5;  // per session; also the baselines of a planned comparison

struct CalibrationSettings {
  double threshold = usual_threshold;
  double confidence = usual_confidence;  // that all intervals hold at once, as in `compare`
  std::string metric;                    // empty: main_metric() of each cell
};

struct Calibration {
  std::string fingerprint, machine;
  std::string made;  // of its newest session
  double threshold = 0, confidence = 0;
  std::vector<CalibrationSession> sessions;  // in the order in which they were added; not empty
  std::vector<CellNoise> cells;              // results over all sessions, in the order of the reports
  // Suggestions from all cells: the forks per run that detect twice the threshold in nine of ten cells, and
  // the smallest threshold of 1, 2, 3, 5, 7, 10, 15, 20, 30 and 50 % with which 12 forks detect twice as much
  // in nine of ten cells. A change that equals the threshold is reported half of the time, with any number of
  // forks.
  std::optional<int> forks;
  std::optional<double> suggested_threshold;

  // The rounds of `assay ab` that detect twice the threshold, with a power of 80 %, in the noisiest of these
  // cells (in the median of all cells if none of them was calibrated), with the confidence `sure` for each
  // interval; nullopt if 1000 rounds are not enough. An empty metric means the first calibrated metric of
  // each cell.
  std::optional<int> rounds_for(const std::vector<std::string>& ids, double threshold, double sure,
                                const std::string& metric = {}) const;
  // The runs of all sessions in logarithms, one entry for each metric: more history for `compare`.
  std::vector<MetricHistory> histories() const;
};

// Calibrates from reports with the same cells, made one after another by one build on one machine, with the
// same settings. Throws ConfigError if they differ in one of these, if no cell is ok with two or more forks,
// or if no cell has two such runs. The second form adds a session to those of an earlier calibration; it
// skips sessions that are out_of_date() at that time.
Calibration calibrate(std::span<const Report> runs, const CalibrationSettings& settings);
Calibration appended(const Calibration& earlier, std::span<const Report> runs,
                     const CalibrationSettings& settings);

// Throws ConfigError if the report is from another machine or build than the calibration, or measured one of
// its cells with other settings. A report without cells is compared only by machine and build.
void require_same_experiment(const Calibration& calibration, const Report& report);

// The calibration from these sessions. Throws ConfigError if no cell has two runs.
Calibration calibration_of(std::vector<CalibrationSession> sessions, std::string fingerprint,
                           std::string machine, const CalibrationSettings& settings);

// {"schema": "assay-calibration/4", ...}. Reading throws JsonError.
nlohmann::json to_json(const Calibration& calibration);
Calibration parse_calibration(std::string text, std::string_view where);
Calibration read_calibration(const std::filesystem::path& file);

inline constexpr int calibration_days = 30;
// Why a session is no longer valid for the machine; empty if it is. now: ISO 8601, UTC.
std::string out_of_date(const CalibrationSession& session, const MachineRecord& machine,
                        std::string_view now);

// The calibration from the sessions that are not out of date; nullopt if they have no cell with two runs.
struct InForce {
  std::optional<Calibration> calibration;
  std::vector<std::string> left_out;  // the reason for each session that is not used
};
InForce in_force(const Calibration& calibration, const MachineRecord& machine, std::string_view now);

// The file of the calibration of a machine: <cache folder>/calibrations/<fingerprint>.json.
std::filesystem::path calibration_place(std::string_view fingerprint);

Table calibration_table(const Calibration& calibration);

}  // namespace assay

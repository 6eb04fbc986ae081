#include "harness/conductor/compare/calibration.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr std::string_view schema = "assay-calibration/4";
constexpr JsonLimits limits{std::size_t{1} << 26, 8};
constexpr double max_stored_forks = 1e6;
constexpr double max_spread = 10;  // of logarithms
constexpr double max_pairs = 2.5e8;

}  // namespace

inline Description describe(Of<CellNoise>) {
  return fields(
      "cell_noise", "The noise of a cell.", field("id", &CellNoise::id, "Id of the cell."),
      field("metric", &CellNoise::metric, "The compared metric."),
      field("sessions", &CellNoise::sessions, "Number of sessions with the cell."),
      field("runs", &CellNoise::runs, "Number of runs in all sessions."),
      field("forks", &CellNoise::forks, "Minimum number of forks of a run."),
      field("within_runs", &CellNoise::within_runs, "Standard deviation of ln(time) between forks of a run.")
          .between(0, max_spread),
      field("between_runs", &CellNoise::between_runs, "The same between runs, of all cells together.")
          .between(0, max_spread),
      field("visible", &CellNoise::visible,
            "Change that is detected with five baselines, by number of forks per run."),
      field("forks_wanted", &CellNoise::forks_wanted, "Forks per run that detect twice the threshold.")
          .between(1, max_stored_forks));
}
inline Description describe(Of<CellRuns>) {
  return fields("cell_runs", "The measurements of a cell in a session.",
                field("id", &CellRuns::id, "Id of the cell."),
                field("metric", &CellRuns::metric, "Metric of the values."),
                field("measured_as", &CellRuns::measured_as, "Settings of timing and loading."),
                field("runs", &CellRuns::runs, "One value per fork, for each run."));
}
inline Description describe(Of<CalibrationSession>) {
  return fields("calibration_session", "The measurements of one start of the program.",
                field("made", &CalibrationSession::made, "When its first run began: ISO 8601, UTC."),
                field("machine", &CalibrationSession::machine, "What identifies the machine."),
                field("software", &CalibrationSession::software, "Versions of libraries and of the program."),
                field("cells", &CalibrationSession::cells, "The cells in the order of the reports."));
}
inline Description describe(Of<Calibration>) {
  return fields(
      "calibration", "The noise of a machine.",
      field("fingerprint", &Calibration::fingerprint, "Fingerprint of the machine."),
      field("machine", &Calibration::machine, "Description of the machine."),
      field("made", &Calibration::made, "When the newest session was made."),
      field("threshold", &Calibration::threshold, "Change of time above which a verdict is a false alarm.")
          .between(0, max_threshold),
      field("confidence", &Calibration::confidence, "Confidence that all intervals hold at once."),
      field("sessions", &Calibration::sessions, "The sessions in the order in which they were added."),
      field("suggested_forks", &Calibration::forks, "Suggested forks per run.").between(1, max_stored_forks),
      field("suggested_threshold", &Calibration::suggested_threshold,
            "Suggested threshold for 12 forks per run."),
      field("cells", &Calibration::cells, "The cells in the order of the reports."));
}

namespace {

// Every two runs of a cell are compared, and every value of one run with every value of the other.
double pairs_of_values(const Calibration& calibration) {
  std::map<std::pair<std::string_view, std::string_view>, double> values;
  for (const CalibrationSession& session : calibration.sessions)
    for (const CellRuns& cell : session.cells)
      for (const std::vector<double>& run : cell.runs)
        values[{cell.id, cell.metric}] += static_cast<double>(run.size());
  double pairs = 0;
  for (const auto& [cell, count] : values) pairs += count * count / 2;
  return pairs;
}

// Checks what the ranges of single fields cannot express.
void require_plausible(const Calibration& calibration, std::string_view where) {
  if (!(calibration.confidence > 0 && calibration.confidence < max_confidence))
    throw JsonError(fmt::format("{}: confidence: {} is not above 0 and below {}", where,
                                calibration.confidence, max_confidence));
  if (const double pairs = pairs_of_values(calibration); pairs > max_pairs)
    throw JsonError(
        fmt::format("{}: its sessions have {:.2g} pairs of values to compare, and {:.2g} are the maximum; "
                    "calibrate without --append to begin another",
                    where, pairs, max_pairs));
  if (calibration.sessions.empty()) throw JsonError(fmt::format("{}: must have at least one session", where));
  for (const CalibrationSession& session : calibration.sessions)
    for (const CellRuns& cell : session.cells) {
      const bool positive = std::ranges::all_of(cell.runs, [](const auto& run) {
        return run.size() >= 2 && std::ranges::all_of(run, [](double value) { return value > 0; });
      });
      if (cell.runs.empty() || !positive)
        throw JsonError(fmt::format("{}: {}: a run must have two or more values, all above 0", where,
                                    one_line(cell.id, 200)));
    }
}

}  // namespace

nlohmann::json to_json(const Calibration& calibration) {
  nlohmann::json out = encode(calibration);
  out["schema"] = schema;
  return out;
}

Calibration parse_calibration(std::string text, std::string_view where) {
  const nlohmann::json json = parse_strict_json(text, where, limits);
  const std::string said = json.is_object() && json.contains("schema") && json["schema"].is_string()
                               ? json["schema"].get<std::string>()
                               : std::string();
  if (said != schema)
    throw JsonError(fmt::format(
        "{}: not a calibration of this release: \"schema\" is \"{}\", not \"{}\"; calibrate again (assay "
        "calibrate)",
        where, said.substr(0, 80), schema));
  Calibration calibration = decoded<Calibration>(json, where, {.not_finite = false});
  require_plausible(calibration, where);
  return calibration;
}

Calibration read_calibration(const std::filesystem::path& file) {
  return parse_calibration(read_json_text(file, limits), file.string());
}

namespace {

std::string percent(double share) { return fmt::format("{:.2g} %", 100 * share); }

std::string visible(const CellNoise& cell) {
  std::string text;
  for (const auto& [forks, change] : cell.visible)
    if (forks <= 32) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", forks, percent(change));
  return text;
}

}  // namespace

Table calibration_table(const Calibration& calibration) {
  Table table;
  table.title = fmt::format("Noise of {} ({})", calibration.machine, calibration.fingerprint);
  table.columns = {{"cell"},
                   {"metric"},
                   {"sessions", Align::right},
                   {"runs", Align::right},
                   {"between forks", Align::right},
                   {"between runs", Align::right},
                   {"change detected with N forks"},
                   {fmt::format("forks for {}", percent(2 * calibration.threshold)), Align::right}};
  for (const CellNoise& cell : calibration.cells)
    table.rows.push_back({{cell.id},
                          {cell.metric},
                          {fmt::format("{}", cell.sessions)},
                          {fmt::format("{} x {}", cell.runs, cell.forks)},
                          {percent(cell.within_runs)},
                          {percent(cell.between_runs)},
                          {visible(cell)},
                          {cell.forks_wanted ? fmt::format("{}", *cell.forks_wanted) : "none: assay ab",
                           cell.forks_wanted ? Tone::plain : Tone::doubtful}});
  table.notes.push_back(
      calibration.forks
          ? fmt::format(
                "Suggested: --forks {} with a threshold of {} and five baselines: a change of {} is then reported in 80 % "
                "of comparisons, and a change equal to the threshold in 50 %.",
                *calibration.forks, percent(calibration.threshold), percent(2 * calibration.threshold))
          : fmt::format(
                "No number of forks detects a change of {} with a threshold of {} in nine of ten cells here: "
                "use `assay ab`, or a larger threshold.",
                percent(2 * calibration.threshold), percent(calibration.threshold)));
  if (calibration.suggested_threshold)
    table.notes.push_back(fmt::format(
        "With 12 forks per run, five baselines and a threshold of {}, a change of {} is detected in nine of ten cells.",
        percent(*calibration.suggested_threshold), percent(2 * *calibration.suggested_threshold)));
  for (const CalibrationSession& session : calibration.sessions)
    table.notes.push_back(
        fmt::format("Session of {}: {}.", session.made, plural(session.cells.size(), "cell")));
  table.notes.push_back(
      "Between forks and between runs: standard deviations of ln(time); between runs of all cells together, with the 2 % "
      "that are assumed before any run is known.");
  return table;
}

}  // namespace assay

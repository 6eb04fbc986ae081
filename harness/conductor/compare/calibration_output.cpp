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

constexpr std::string_view schema = "assay-calibration/2";
constexpr JsonLimits limits{std::size_t{1} << 26, 8};
constexpr double most_forks = 1e6;
constexpr double most_spread = 10;  // of logarithms
constexpr double max_pairs = 2.5e8;
constexpr double max_runs = 10'000;
constexpr double max_comparisons = max_runs * max_runs;

}  // namespace

constexpr auto describe(Of<CellNoise>) {
  return fields(
      "cell_noise", "How noisy a cell is.", field("id", &CellNoise::id, "Of the cell."),
      field("metric", &CellNoise::metric, "Which one scatters."),
      field("sessions", &CellNoise::sessions, "Sessions that have it."),
      field("runs", &CellNoise::runs, "Runs of all of them."),
      field("forks", &CellNoise::forks, "Of the run with the fewest."),
      field("within_runs", &CellNoise::within_runs, "Between forks of a run.").between(0, most_spread),
      field("between_runs", &CellNoise::between_runs, "Between runs.").between(0, most_spread),
      field("degrees", &CellNoise::degrees, "Of freedom of that.").between(1, max_runs),
      field("floor", &CellNoise::floor, "Largest ratio - 1 that two runs of one build may show."),
      field("comparisons", &CellNoise::comparisons, "Of two runs each.").between(0, max_comparisons),
      field("alarms", &CellNoise::alarms, "False ones among them.").between(0, max_comparisons),
      field("visible", &CellNoise::visible, "Changes that show, by forks a side."),
      field("forks_wanted", &CellNoise::forks_wanted, "A side, that show twice the threshold.")
          .between(1, most_forks));
}
constexpr auto describe(Of<CellRuns>) {
  return fields("cell_runs", "What a session measured of a cell.", field("id", &CellRuns::id, "Of the cell."),
                field("metric", &CellRuns::metric, "Which values these are."),
                field("measured_as", &CellRuns::measured_as, "How it was timed and fed."),
                field("runs", &CellRuns::runs, "One value a fork, of each run."));
}
constexpr auto describe(Of<CalibrationSession>) {
  return fields("calibration_session", "What one start of the program measured.",
                field("made", &CalibrationSession::made, "ISO 8601, UTC."),
                field("kernel", &CalibrationSession::kernel, "Of the machine then."),
                field("identity", &CalibrationSession::identity, "Of the machine and the build."),
                field("cells", &CalibrationSession::cells, "In the order of the reports."));
}
constexpr auto describe(Of<Calibration>) {
  return fields("calibration", "How noisy a machine is.",
                field("fingerprint", &Calibration::fingerprint, "Of the machine."),
                field("machine", &Calibration::machine, "In words."),
                field("made", &Calibration::made, "Of the newest session."),
                field("threshold", &Calibration::threshold, "A change of which alarms are about.")
                    .between(0, max_threshold),
                field("confidence", &Calibration::confidence, "Of all cells together."),
                field("sessions", &Calibration::sessions, "In the order in which they were added."),
                field("suggested_forks", &Calibration::forks, "A side.").between(1, most_forks),
                field("suggested_threshold", &Calibration::suggested_threshold, "That 12 forks show."),
                field("cells", &Calibration::cells, "In the order of the reports."));
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

// What the ranges of single fields do not say.
void require_plausible(const Calibration& calibration, std::string_view where) {
  if (!(calibration.confidence > 0 && calibration.confidence < max_confidence))
    throw JsonError(fmt::format("{}: confidence: {} is not above 0 and below {}", where,
                                calibration.confidence, max_confidence));
  if (const double pairs = pairs_of_values(calibration); pairs > max_pairs)
    throw JsonError(
        fmt::format("{}: its sessions have {:.2g} pairs of values to compare, and {:.2g} are the maximum; "
                    "calibrate without --append to begin another",
                    where, pairs, max_pairs));
  if (calibration.sessions.empty()) throw JsonError(fmt::format("{}: it has no session", where));
  for (const CalibrationSession& session : calibration.sessions)
    for (const CellRuns& cell : session.cells) {
      const bool positive = std::ranges::all_of(cell.runs, [](const auto& run) {
        return run.size() >= 2 && std::ranges::all_of(run, [](double value) { return value > 0; });
      });
      if (cell.runs.empty() || !positive)
        throw JsonError(
            fmt::format("{}: {}: a run has two values or more, above 0", where, one_line(cell.id, 200)));
    }
}

}  // namespace

nlohmann::json to_json(const Calibration& calibration) {
  nlohmann::json out = encode(calibration);
  out["schema"] = schema;
  out["comparisons"] = calibration.comparisons();
  out["alarms"] = calibration.alarms();
  return out;
}

Calibration parse_calibration(std::string text, std::string_view where) {
  const nlohmann::json json = parse_strict_json(text, where, limits);
  const std::string said = json.is_object() && json.contains("schema") && json["schema"].is_string()
                               ? json["schema"].get<std::string>()
                               : std::string();
  if (said != schema)
    throw JsonError(
        fmt::format("{}: not a calibration of this release: its \"schema\" is \"{}\", not \"{}\"; "
                    "calibrate again (assay calibrate)",
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
                   {"floor", Align::right},
                   {"alarms", Align::right},
                   {"forks and the change they see"},
                   {fmt::format("forks for {}", percent(2 * calibration.threshold)), Align::right}};
  for (const CellNoise& cell : calibration.cells)
    table.rows.push_back(
        {{cell.id},
         {cell.metric},
         {fmt::format("{}", cell.sessions)},
         {fmt::format("{} x {}", cell.runs, cell.forks)},
         {percent(cell.within_runs)},
         {percent(cell.between_runs)},
         {percent(cell.floor)},
         {fmt::format("{}/{}", cell.alarms, cell.comparisons), cell.alarms > 0 ? Tone::bad : Tone::plain},
         {visible(cell)},
         {cell.forks_wanted ? fmt::format("{}", *cell.forks_wanted) : "none: assay ab",
          cell.forks_wanted ? Tone::plain : Tone::doubtful}});
  table.notes.push_back(
      fmt::format("False alarms: {} of {} comparisons of two runs of the same build, each "
                  "without what the runs differ by.",
                  calibration.alarms(), calibration.comparisons()));
  table.notes.push_back(
      calibration.forks
          ? fmt::format(
                "Suggested: --forks {} for a threshold of {}: a change of {} is then called four times of "
                "five. One that equals the threshold is called half of the time.",
                *calibration.forks, percent(calibration.threshold), percent(2 * calibration.threshold))
          : fmt::format("No number of forks shows {} at a threshold of {} in nine of ten cells here: ask "
                        "`assay ab`, or take a larger threshold.",
                        percent(2 * calibration.threshold), percent(calibration.threshold)));
  if (calibration.suggested_threshold)
    table.notes.push_back(fmt::format(
        "With 12 forks a side and a threshold of {}, {} is seen in nine of ten cells.",
        percent(*calibration.suggested_threshold), percent(2 * *calibration.suggested_threshold)));
  for (const CalibrationSession& session : calibration.sessions)
    table.notes.push_back(fmt::format("Session of {}: {} cells.", session.made, session.cells.size()));
  table.notes.push_back(
      "Between forks and between runs: standard deviations of ln(time). Floor: the largest change that two "
      "runs of one build are to be expected to show.");
  return table;
}

}  // namespace assay

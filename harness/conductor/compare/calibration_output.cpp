#include "harness/conductor/compare/calibration.hpp"

#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/strict_json.hpp"
#include "harness/core/or_null.hpp"
#include "harness/report/json_reader.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

constexpr std::string_view schema = "assay-calibration/1";
constexpr JsonLimits limits{std::size_t{1} << 26, 8};

Json to_json(const CellNoise& cell) {
  Json visible = Json::object();
  for (const auto& [forks, change] : cell.visible) visible[std::to_string(forks)] = change;
  return {{"id", cell.id},
          {"metric", cell.metric},
          {"runs", cell.runs},
          {"forks", cell.forks},
          {"within_runs", cell.within_runs},
          {"between_runs", cell.between_runs},
          {"floor", cell.floor},
          {"comparisons", cell.comparisons},
          {"alarms", cell.alarms},
          {"visible", visible},
          {"forks_wanted", or_null(cell.forks_wanted)}};
}

std::optional<int> optional_integer(const JsonReader& in, const char* key) {
  std::optional<double> number;
  in.read(key, number);
  if (!number) return std::nullopt;
  if (!(*number >= 1 && *number <= 1e6)) in.field(key).fail("should be a number of forks");
  return static_cast<int>(*number);
}

double spread(const JsonReader& in, const char* key) {
  double value = 0;
  in.read(key, value);
  if (!(value >= 0 && value <= 10)) in.field(key).fail(fmt::format("{} is no spread of logarithms", value));
  return value;
}

CellNoise read_cell(const JsonReader& in) {
  CellNoise cell;
  in.read("id", cell.id);
  in.read("metric", cell.metric);
  in.read("runs", cell.runs);
  in.read("forks", cell.forks);
  cell.within_runs = spread(in, "within_runs");
  cell.between_runs = spread(in, "between_runs");
  in.read("floor", cell.floor);
  in.read("comparisons", cell.comparisons);
  in.read("alarms", cell.alarms);
  in.field("visible").each_member([&](const std::string& forks, const JsonReader& change) {
    int number = 0;
    const auto [end, error] = std::from_chars(forks.data(), forks.data() + forks.size(), number);
    if (error != std::errc{} || end != forks.data() + forks.size()) change.fail("is no number of forks");
    cell.visible[number] = change.number();
  });
  cell.forks_wanted = optional_integer(in, "forks_wanted");
  return cell;
}

}  // namespace

Json to_json(const Calibration& calibration) {
  Json cells = Json::array();
  for (const CellNoise& cell : calibration.cells) cells.push_back(to_json(cell));
  return {{"schema", schema},
          {"fingerprint", calibration.fingerprint},
          {"machine", calibration.machine},
          {"made", calibration.made},
          {"threshold", calibration.threshold},
          {"confidence", calibration.confidence},
          {"runs", calibration.runs},
          {"comparisons", calibration.comparisons()},
          {"alarms", calibration.alarms()},
          {"suggested_forks", or_null(calibration.forks)},
          {"suggested_threshold", or_null(calibration.suggested_threshold)},
          {"cells", std::move(cells)}};
}

Calibration parse_calibration(std::string text, std::string_view where) {
  const StrictDocument document(std::move(text), where, limits);
  const JsonReader in(document);
  std::string said;
  in.read_optional("schema", said);
  if (said != schema)
    throw JsonError(fmt::format("{}: not a calibration: its \"schema\" is \"{}\", not \"{}\"", where,
                                said.substr(0, 80), schema));
  Calibration calibration;
  in.read("fingerprint", calibration.fingerprint);
  in.read("machine", calibration.machine);
  in.read("made", calibration.made);
  in.read("threshold", calibration.threshold);
  in.read("confidence", calibration.confidence);
  in.read("runs", calibration.runs);
  calibration.forks = optional_integer(in, "suggested_forks");
  in.read("suggested_threshold", calibration.suggested_threshold);
  in.field("cells").each([&](const JsonReader& cell) { calibration.cells.push_back(read_cell(cell)); });
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
                   {"runs", Align::right},
                   {"between forks", Align::right},
                   {"between runs", Align::right},
                   {"floor", Align::right},
                   {"alarms", Align::right},
                   {"forks and the change they see"},
                   {fmt::format("forks for {}", percent(calibration.threshold)), Align::right}};
  for (const CellNoise& cell : calibration.cells)
    table.rows.push_back(
        {{cell.id},
         {cell.metric},
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
          ? fmt::format("Suggested: --forks {} for a threshold of {}.", *calibration.forks,
                        percent(calibration.threshold))
          : fmt::format("No number of forks shows {} in nine of ten cells here: ask `assay ab`, or take a "
                        "larger threshold.",
                        percent(calibration.threshold)));
  if (calibration.suggested_threshold)
    table.notes.push_back(fmt::format("With 12 forks a side a threshold of {} is seen in nine of ten cells.",
                                      percent(*calibration.suggested_threshold)));
  table.notes.push_back(
      "Between forks and between runs: standard deviations of ln(time). Floor: the largest change that two "
      "runs of one build are to be expected to show.");
  return table;
}

}  // namespace assay

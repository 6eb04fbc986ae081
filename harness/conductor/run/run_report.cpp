#include "harness/conductor/run/run_report.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/backends/build_info.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/fork/worker_plan.hpp"
#include "harness/conductor/run/cell_report.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/environment.hpp"
#include "harness/report/run_record.hpp"

namespace assay {
namespace {

nlohmann::json settings_json(const RunSettings& settings) {
  nlohmann::json folders = nlohmann::json::array();
  for (const std::filesystem::path& folder : settings.data) folders.push_back(folder.string());
  return {{"forks", settings.forks},
          {"spare_rounds", settings.spare_rounds},
          {"until", settings.until == Until::clear ? "clear" : "forks"},
          {"fork_style", settings.fork_style == ForkStyle::resident ? "resident" : "fresh"},
          {"exams", settings.exams},
          {"examine", settings.examine_all ? "all" : "some"},
          {"max_time", settings.max_seconds},
          {"seed", settings.seed},
          {"seed_per_round", settings.seed_per_round},
          {"time_limit", settings.time_limit},
          {"quick", settings.quick},
          {"profile", settings.profile},
          {"roofline", settings.roofline},
          {"data", std::move(folders)},
          {"weights",
           settings.weights.empty() ? nlohmann::json(nullptr) : nlohmann::json(settings.weights.string())},
          {"environment", settings.environment}};
}

}  // namespace

RunReport::RunReport(const RunRequest& request, const RunSettings& settings, Expansion& expansion,
                     Progress& progress)
    : request_(request),
      settings_(settings),
      expansion_(expansion),
      progress_(progress),
      journal_(request.out) {}

void RunReport::resume(const CellGroups& groups, int forks) {
  resumed_.emplace(request_, groups, expansion_.cells, forks);
}

void RunReport::begin(const BackendRegistry& backends, const std::optional<FileDigest>& weights) {
  const BuildInfo& build = build_info();
  report_.run = {{"command_line", request_.command_line},
                 {"config", to_json(request_.config)},
                 {"start", utc_now()},
                 {"end", nullptr},
                 {"commit", build.commit},
                 {"dirty", build.dirty},
                 {"version", build.version},
                 {"build", encode(BuildRecord{std::string(build.compiler), std::string(build.build_type),
                                              std::string(build.flags)})},
                 {"complete", false},
                 {"quick", settings_.quick},
                 {"datasets", nlohmann::json::array()}};
  report_.run["settings"] = settings_json(settings_);
  if (weights) report_.run["weights"] = encode(*weights);
  report_.run["programs"] = programs_of(expansion_.cells, backends);
  if (!expansion_.left_out.empty()) report_.run["left_out"] = expansion_.left_out;
  if (!request_.best.empty()) report_.run["best"] = encode(request_.best);
  report_.environment = request_.environment;
  note_session();
  if (request_.resume && request_.resume->run.contains("start"))
    report_.run["start"] = request_.resume->run["start"];
  if (request_.shard) report_.run["shard"] = encode(*request_.shard);
  for (const Cell& cell : expansion_.cells) report_.cells.push_back(planned_report(cell, settings_));
  if (resumed_) take_earlier_cells();
}

void RunReport::take_earlier_cells() {
  const Report& earlier = *request_.resume;
  if (!earlier.environments.empty()) {
    report_.environments = earlier.environments;
    report_.environments.push_back(request_.environment);
    report_.environment = report_.environments.front();
    for (const char* key : {"merged", "datasets"})
      if (const auto found = earlier.run.find(key); found != earlier.run.end()) report_.run[key] = *found;
  }
  for (std::size_t i = 0; i < expansion_.cells.size(); ++i) {
    const ResumedCell& cell = resumed_->of(i);
    CellReport& row = report_.cells[i];
    if (is_elsewhere(i)) {
      row = *cell.earlier;
      end_with(expansion_.cells[i], ReasonCode::not_reached,
               "measured on another machine");  // never runs here
    } else if (cell.place == ResumedPlace::continued) {
      take_earlier(row, earlier);
    }
    row.environment = cell.environment;
  }
}

void RunReport::note_session() {
  const BuildInfo& build = build_info();
  nlohmann::json sessions = nlohmann::json::array();
  if (request_.resume) {
    if (const auto earlier = request_.resume->run.find("sessions");
        earlier != request_.resume->run.end() && earlier->is_array())
      sessions = *earlier;
    for (const CellReport& cell : request_.resume->cells)
      for (const Fork& fork : cell.forks) next_order_ = std::max(next_order_, fork.order.value_or(-1) + 1);
  }
  session_ = static_cast<int>(sessions.size());
  sessions.push_back(encode(SessionRecord{.start = report_.run["start"],
                                          .commit = std::string(build.commit),
                                          .version = std::string(build.version),
                                          .boot_id = boot_id(),
                                          .dirty = build.dirty,
                                          .variables = session_variables(settings_),
                                          .dropped = dropped_variables(settings_)}));
  report_.run["sessions"] = std::move(sessions);
}

void RunReport::stamp(Fork& fork, std::string start) {
  fork.start = std::move(start);
  fork.order = next_order_++;
  fork.session = session_;
}

void RunReport::note_dataset(std::size_t cell, const PreparedDataset& data) {
  nlohmann::json entry = encode(data.record(expansion_.cells[cell].axes.dataset));
  if (resumed_) reject_other_dataset(*request_.resume, resumed_->of(cell), entry);
  nlohmann::json& all = report_.run["datasets"];
  if (std::find(all.begin(), all.end(), entry) != all.end()) return;
  all.push_back(std::move(entry));
  if (const std::string why = why_nothing_is_learned(data.manifest); !why.empty()) progress_.note(why);
}

void RunReport::save() {
  try {
    journal_.save(report_);
  } catch (const std::runtime_error& error) {
    progress_.note(fmt::format("warning: the report could not be written: {}", error.what()));
  }
}

Report RunReport::finish() {
  journal_.finish(report_);
  return std::move(report_);
}

}  // namespace assay

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
#include "harness/core/text.hpp"
#include "harness/machine/environment.hpp"

namespace assay {
namespace {

RunSettingsRecord record_of(const RunSettings& settings) {
  return {.forks = settings.forks,
          .spare_rounds = settings.spare_rounds,
          .exams = settings.exams,
          .until = settings.until == Until::clear ? "clear" : "forks",
          .fork_style = settings.fork_style == ForkStyle::resident ? "resident" : "fresh",
          .examine = settings.examine_all ? "all" : "some",
          .seed = settings.seed,
          .seed_per_round = settings.seed_per_round,
          .quick = settings.quick,
          .profile = settings.profile,
          .max_time = settings.max_seconds,
          .time_limit = settings.time_limit,
          .roofline = settings.roofline,
          .data = settings.data,
          .weights = settings.weights.empty() ? std::nullopt : std::optional(settings.weights),
          .environment = settings.environment};
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
  report_.run = {.command_line = request_.command_line,
                 .config = to_json(request_.config),
                 .start = utc_now(),
                 .commit = std::string(build.commit),
                 .version = std::string(build.version),
                 .dirty = build.dirty,
                 .quick = settings_.quick,
                 .settings = record_of(settings_),
                 .programs = programs_of(expansion_.cells, backends),
                 .left_out = expansion_.left_out,
                 .best = request_.best,
                 .build = BuildRecord{std::string(build.compiler), std::string(build.build_type),
                                      std::string(build.flags)},
                 .datasets = std::vector<DatasetRecord>(),
                 .weights = weights,
                 .shard = request_.shard};
  report_.environment = request_.environment;
  note_session();
  if (request_.resume) report_.run.start = request_.resume->run.start;
  for (const Cell& cell : expansion_.cells) report_.cells.push_back(planned_report(cell, settings_));
  if (resumed_) take_earlier_cells();
}

void RunReport::take_earlier_cells() {
  const Report& earlier = *request_.resume;
  if (!earlier.environments.empty()) {
    report_.environments = earlier.environments;
    report_.environments.push_back(request_.environment);
    report_.environment = report_.environments.front();
    report_.run.merged = earlier.run.merged;
    if (earlier.run.datasets) report_.run.datasets = earlier.run.datasets;
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
  std::vector<SessionRecord>& sessions = report_.run.sessions;
  if (request_.resume) {
    sessions = request_.resume->run.sessions;
    for (const CellReport& cell : request_.resume->cells)
      for (const Fork& fork : cell.forks) next_order_ = std::max(next_order_, fork.order.value_or(-1) + 1);
  }
  session_ = static_cast<int>(sessions.size());
  sessions.push_back({.start = report_.run.start,
                      .commit = std::string(build.commit),
                      .version = std::string(build.version),
                      .boot_id = boot_id(),
                      .dirty = build.dirty,
                      .variables = session_variables(settings_),
                      .dropped = dropped_variables(settings_)});
}

void RunReport::stamp(Fork& fork, std::string start) {
  fork.start = std::move(start);
  fork.order = next_order_++;
  fork.session = session_;
}

void RunReport::note_dataset(std::size_t cell, const PreparedDataset& data) {
  DatasetRecord entry = data.record(expansion_.cells[cell].axes.dataset);
  if (resumed_) reject_other_dataset(*request_.resume, resumed_->of(cell), entry);
  std::vector<DatasetRecord>& all = *report_.run.datasets;
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

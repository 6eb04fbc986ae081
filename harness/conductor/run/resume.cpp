#include "harness/conductor/run/resume.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backend_digest.hpp"
#include "harness/conductor/backends/build_info.hpp"
#include "harness/conductor/fork/worker_plan.hpp"
#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/network_change.hpp"

namespace assay {
namespace {

// The config without the settings that may change when a report is resumed.
nlohmann::json comparable(const RunConfig& config) {
  nlohmann::json json = to_json(config);
  for (const char* key : {"forks", "spare-rounds", "until", "max-time", "time-limit", "roofline", "data",
                          "interpreter", "title", "name", "source", "overridden"})
    json.erase(key);
  return json;
}

void reject_other_config(const RunRequest& request) {
  const nlohmann::json& before = request.resume->run.config;
  if (!before.is_object()) {
    throw ConfigError(
        "[resume] the earlier report cannot be continued: it does not contain its config; measure into a new report");
  }
  const auto then = comparable(config_from_json(before, "config of the earlier report"));
  const auto now = comparable(request.config);
  if (then != now) {
    throw ConfigError(fmt::format(
        "[resume] the earlier report has another config ({}; now {}): use the same config, or measure into another "
        "report",
        then.dump(), now.dump()));
  }
}

void reject_other_shard(const RunRequest& request) {
  const std::optional<Shard>& earlier = request.resume->run.shard;
  if (earlier == request.shard) return;
  const auto text = [](const std::optional<Shard>& shard) {
    return shard ? fmt::format("shard {} of {}", shard->index, shard->count) : std::string("the whole run");
  };
  throw ConfigError(fmt::format("[resume] the earlier report is of {}, not of {}: omit --shard",
                                text(earlier), text(request.shard)));
}

void reject_other_build(const RunRequest& request) {
  const RunRecord& earlier = request.resume->run;
  const BuildInfo& build = build_info();
  if (earlier.commit != build.commit || earlier.dirty != build.dirty)
    throw ConfigError(fmt::format(
        "[resume] the earlier report was made by commit \"{}\", this program is commit {}{}: forks of two builds must "
        "not be mixed; measure into another report",
        earlier.commit, build.commit, build.dirty ? " with local changes" : ""));
}

[[noreturn]] void reject_machine(const EnvironmentDifference& one, std::string_view what,
                                 std::string_view remedy) {
  throw ConfigError(
      fmt::format("[resume] {} was {} and is {} now: {}; {}", one.what, one.base, one.current, what, remedy));
}

using Variables = std::map<std::string, std::string>;

// The environment variables that affected the speed of a fork of the earlier report; nothing if the report does not
// have them.
std::optional<Variables> variables_of(const Report& earlier, const Fork& fork) {
  if (!fork.session) return std::nullopt;
  const auto session = static_cast<std::size_t>(*fork.session);
  return session < earlier.run.sessions.size() ? std::optional(earlier.run.sessions[session].variables)
                                               : std::nullopt;
}

std::string shown(const Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "not set" : fmt::format("'{}'", found->second);
}

// The forks that stay must have run with the variables that workers get now.
void reject_other_variables(const Report& earlier, const CellReport& row, const Variables& now) {
  for (const Fork& fork : row.forks) {
    const auto then = variables_of(earlier, fork);
    if (!then || *then == now) continue;
    Variables all = *then;
    all.insert(now.begin(), now.end());
    const auto differs = std::ranges::find_if(
        all, [&](const auto& one) { return shown(*then, one.first) != shown(now, one.first); });
    throw ConfigError(fmt::format(
        "[resume] the environment variable {} was {} and is {} now: it affects speed, so forks with both must not be "
        "mixed; set it as before, or measure into another report",
        differs->first, shown(*then, differs->first), shown(now, differs->first)));
  }
}

// The forks that stay must have executed the files that the next ones will.
void reject_other_backend(const CellReport& row, const BackendDescription& backend) {
  const BackendDigest now = digest_of(backend);
  for (const Fork& fork : row.forks) {
    if (fork.status != Status::ok || fork.adapter_digest.empty()) continue;
    if (fork.adapter_digest == now.adapter && fork.program_digest == now.program) continue;
    throw ConfigError(fmt::format(
        "[resume] the {} of the backend {} changed since the earlier forks ({}): forks of both must not be mixed; restore "
        "it, or measure into another report",
        fork.adapter_digest == now.adapter ? "worker's program, interpreter or backend.json" : "scripts",
        backend.name, backend.folder.string()));
  }
}

// Other cells would be cut differently.
void reject_other_cells(const Report& earlier, const std::vector<Cell>& cells) {
  const bool same = std::equal(cells.begin(), cells.end(), earlier.cells.begin(), earlier.cells.end(),
                               [](const Cell& cell, const CellReport& row) { return cell.id == row.id; });
  if (!same)
    throw ConfigError(fmt::format(
        "[resume] the earlier report has {}, and the config has {} or others: use the same --filter and the "
        "same backends",
        plural(earlier.cells.size(), "cell"), cells.size()));
}

void reject_other_networks(const Report& earlier, const std::vector<Cell>& cells) {
  std::vector<std::string> now;
  for (const Cell& cell : cells) now.push_back(cell.axes.workload);
  if (const auto change = changed_network(workloads_of(earlier.cells), now))
    throw ConfigError(fmt::format(
        "[resume] {}; forks of both must not be mixed: restore the folder, or measure into another report",
        to_string(*change)));
}

bool misses_forks(const CellReport& row, int forks) {
  if (row.status == Status::interrupted) return true;
  const auto ok = std::count_if(row.forks.begin(), row.forks.end(),
                                [](const Fork& fork) { return fork.status == Status::ok; });
  return row.status == Status::ok && ok < forks;
}

}  // namespace

void reject_other_run(const RunRequest& request) {
  reject_other_config(request);
  reject_other_shard(request);
  reject_other_build(request);
}

ResumedCells::ResumedCells(const RunRequest& request, const CellGroups& groups,
                           const std::vector<Cell>& cells, int forks)
    : cells_(cells.size()) {
  const Report& earlier = *request.resume;
  reject_other_networks(earlier, cells);
  if (request.shard || !earlier.environments.empty()) reject_other_cells(earlier, cells);
  std::map<std::string_view, const CellReport*> rows;
  for (const CellReport& row : earlier.cells) rows.emplace(row.id, &row);
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (const auto row = rows.find(cells[i].id); row != rows.end()) cells_[i].earlier = row->second;
  if (!earlier.environments.empty()) {
    for (const auto& [name, group] : groups) place_group(group, name, request, forks);
  } else {
    if (const auto difference = other_machine(earlier.environment, request.environment))
      reject_machine(*difference, "the earlier report is from another machine",
                     "measure into another report");
    for (ResumedCell& cell : cells_) cell.place = ResumedPlace::continued;
  }
  const Variables now = session_variables(settings_of(request.config));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells_[i].earlier || cells_[i].place != ResumedPlace::continued) continue;
    reject_other_variables(earlier, *cells_[i].earlier, now);
    if (cells[i].runnable()) reject_other_backend(*cells_[i].earlier, *cells[i].backend);
  }
}

void ResumedCells::place_group(const std::vector<std::size_t>& group, const std::string& name,
                               const RunRequest& request, int forks) {
  const Report& earlier = *request.resume;
  const auto begun = std::find_if(group.begin(), group.end(), [&](std::size_t i) {
    return cells_[i].earlier && !cells_[i].earlier->forks.empty();
  });
  if (begun == group.end()) {
    const int here = static_cast<int>(earlier.environments.size());
    for (const std::size_t i : group) cells_[i].environment = here;
    return;
  }
  const CellReport& first = *cells_[*begun].earlier;
  const auto difference = other_machine(machine_of(earlier, first), request.environment);
  const bool incomplete = std::any_of(group.begin(), group.end(), [&](std::size_t i) {
    return !cells_[i].earlier || misses_forks(*cells_[i].earlier, forks);
  });
  if (difference && incomplete)
    reject_machine(*difference, fmt::format("another machine began {} and did not end it", name),
                   "resume the report of its shard there, and merge again");
  for (const std::size_t i : group) {
    cells_[i].place = difference ? ResumedPlace::elsewhere : ResumedPlace::continued;
    cells_[i].environment = first.environment;
  }
}

void reject_other_dataset(const Report& earlier, const ResumedCell& cell, const DatasetRecord& dataset) {
  if (!cell.earlier || cell.earlier->forks.empty() || !earlier.run.datasets) return;
  for (const DatasetRecord& one : *earlier.run.datasets) {
    if (one.name != dataset.name) continue;
    for (const auto& [what, was, is] : content_differences(one, dataset)) {
      if (was.is_null()) continue;  // the earlier checksum was not computed
      throw ConfigError(fmt::format(
          "[resume] the {} of the data set \"{}\" was {} and is {} now (in \"{}\"): forks on other data must not be mixed; "
          "restore the earlier data, or measure into another report",
          what, dataset.name, was.dump(), is.dump(), dataset.folder.string()));
    }
  }
}

void reject_other_weights(const Report& earlier, const FileDigest& weights) {
  const std::optional<FileDigest>& was = earlier.run.weights;
  const bool kept =
      std::ranges::any_of(earlier.cells, [](const CellReport& row) { return !row.forks.empty(); });
  if (!kept || !was || was->sha256 == weights.sha256) return;
  throw ConfigError(fmt::format(
      "[resume] the weights in {} have the SHA-256 {}, and the earlier forks began from \"{}\": forks of both must not be "
      "mixed; restore the earlier file, or measure into another report",
      weights.name, weights.sha256, was->sha256));
}

}  // namespace assay

#include "harness/report/merge.hpp"
#include "harness/report/network_change.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/encode.hpp"
#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/hosts.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/metrics.hpp"
#include "harness/report/report_json.hpp"

namespace assay {

MergeError::MergeError(MergeRefusal code, const std::string& text)
    : Error(fmt::format("[merge] {}: {}", to_string(code), text)), code_(code) {}

namespace {

using Json = nlohmann::json;

template <typename... Arguments>
[[noreturn]] void refuse(MergeRefusal code, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw MergeError(code, fmt::format(text, std::forward<Arguments>(arguments)...));
}

// A part of the merge with its shard.
struct Part {
  Shard shard;
  std::string name;
  Report report;
};

Part part_of(MergePart given) {
  Report& report = given.report;
  if (!report.environments.empty())
    refuse(
        MergeRefusal::already_merged,
        "{} is a merged report; merge all of its shards and the others in one call, or complete it with assay "
        "run --resume",
        given.name);
  if (report.schema != report_schema)
    refuse(MergeRefusal::other_schema, "{} has the schema {}, and shards have {}", given.name, report.schema,
           report_schema);
  const std::optional<Shard> shard = report.run.shard;
  if (!shard)
    refuse(MergeRefusal::not_a_shard,
           "{} is the report of a whole run; only reports of assay run --shard can be merged", given.name);
  Part part{*shard, std::move(given.name), std::move(report)};
  if (part.shard.index > part.shard.count)
    refuse(MergeRefusal::not_a_shard, "{} is shard {} of {}", part.name, part.shard.index, part.shard.count);
  return part;
}

// The config without the paths of a machine.
Json portable_config(const Report& report) {
  Json config = report.run.config;
  if (config.is_object())
    for (const char* key : {"data", "interpreter"}) config.erase(key);
  return config;
}

void require_same_build(const Part& first, const Part& other) {
  const RunRecord &a = first.report.run, &b = other.report.run;
  const auto require = [&](const char* what, const auto& was, const auto& is) {
    if (was != is)
      refuse(MergeRefusal::other_build,
             "{} was made with the {} {}, and {} with {}: measure all shards with one build", first.name,
             what, one_line(encode(was).dump(), 200), other.name, one_line(encode(is).dump(), 200));
  };
  require("commit", a.commit, b.commit);
  require("dirty", a.dirty, b.dirty);
  require("version", a.version, b.version);
  require("build", a.build, b.build);
}

void require_same_plan(const Part& first, const Part& other) {
  if (first.shard.count != other.shard.count)
    refuse(MergeRefusal::other_shards, "{} is one of {} shards, and {} one of {}: they are cut differently",
           first.name, first.shard.count, other.name, other.shard.count);
  if (portable_config(first.report) != portable_config(other.report))
    refuse(MergeRefusal::other_config, "{} and {} were made from different configs or options", first.name,
           other.name);
  const auto &a = first.report.cells, &b = other.report.cells;
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end(),
                                    [](const auto& one, const auto& two) { return one.id == two.id; });
  if (x == a.end() && y == b.end()) return;
  if (const auto change = changed_network(workloads_of(a), workloads_of(b)))
    refuse(MergeRefusal::other_cells,
           "{} has {}, and {} has {}: import the network once, and copy its folder", first.name,
           change->before, other.name, change->now);
  refuse(
      MergeRefusal::other_cells,
      "the config means other cells on the two machines: {} has {}, and {} has {}; name what differs between "
      "them, such as --backend and --threads",
      first.name, x == a.end() ? "no further cell" : x->id, other.name,
      y == b.end() ? "no further cell" : y->id);
}

bool is_own(const CellReport& cell) { return cell.reason_code != ReasonCode::other_shard; }

// Whether a fork is in both: the same round with the same raw times.
bool share_a_fork(const CellReport& a, const CellReport& b) {
  const auto begins = [](const Fork& fork) { return fork.blocks.empty() ? 0 : fork.blocks.front().begin_ns; };
  for (const Fork& one : a.forks)
    for (const Fork& other : b.forks)
      if (one.round == other.round && one.start == other.start && begins(one) == begins(other)) return true;
  return false;
}

// Each cell belongs to one of the parts at most.
void reject_overlap(const std::vector<Part>& parts) {
  for (std::size_t i = 0; i < parts.front().report.cells.size(); ++i) {
    const Part* owner = nullptr;
    for (const Part& part : parts) {
      const CellReport& cell = part.report.cells[i];
      if (!is_own(cell)) continue;
      if (!owner) {
        owner = &part;
        continue;
      }
      if (share_a_fork(owner->report.cells[i], cell))
        refuse(MergeRefusal::duplicate_forks, "{} and {} have the same forks of {}: give each report once",
               owner->name, part.name, cell.id);
      refuse(MergeRefusal::overlapping_cells, "{} and {} both measured {}: keep one report of each shard",
             owner->name, part.name, cell.id);
    }
  }
}

// The versions of the backends and of the libraries that its cells loaded: "torch", "torch: libtorch".
std::map<std::string, std::string> versions_of(const Report& report) {
  std::map<std::string, std::string> found;
  for (const CellReport& cell : report.cells) {
    if (cell.forks.empty()) continue;
    if (!cell.backend_version.empty()) found.emplace(cell.axes.backend, cell.backend_version);
    for (const protocol::Library& library : cell.libraries)
      found.emplace(fmt::format("{}: {}", cell.axes.backend, library.name), library.version);
  }
  return found;
}

void require_same_libraries(const std::vector<Part>& parts) {
  std::map<std::string, std::pair<std::string, const Part*>> known;
  for (const Part& part : parts)
    for (const auto& [name, version] : versions_of(part.report)) {
      const auto [found, added] = known.try_emplace(name, version, &part);
      if (found->second.first != version)
        refuse(MergeRefusal::other_libraries, "{} is {} in {}, and {} in {}: install the same versions", name,
               found->second.first, found->second.second->name, version, part.name);
    }
}

// The scripts of a backend: what its cells executed must be one program on all machines.
void require_same_adapters(const std::vector<Part>& parts) {
  std::map<std::string, std::pair<std::string, const Part*>> known;
  for (const Part& part : parts)
    for (const CellReport& cell : part.report.cells)
      for (const Fork* fork : ok_forks(cell)) {
        if (fork->adapter_digest.empty()) continue;
        const auto [found, added] = known.try_emplace(cell.axes.backend, fork->adapter_digest, &part);
        if (found->second.first != fork->adapter_digest)
          refuse(
              MergeRefusal::other_libraries,
              "the scripts of the backend {} (its folder, or the harness's Python files) differ between {} and {}: "
              "install the same version of Assay and of the backend",
              cell.axes.backend, found->second.second->name, part.name);
      }
}

void require_same_weights(const std::vector<Part>& parts) {
  const auto digest = [](const Part& part) {
    return part.report.run.weights ? part.report.run.weights->sha256 : std::string();
  };
  for (const Part& part : parts)
    if (digest(part) != digest(parts.front()))
      refuse(MergeRefusal::other_data, "the weights (--weights) differ between {} and {}", parts.front().name,
             part.name);
}

const std::vector<DatasetRecord>& datasets_of(const Part& part) {
  static const std::vector<DatasetRecord> none;
  return part.report.run.datasets ? *part.report.run.datasets : none;
}

// The data sets of all parts, each once. Their folders may differ between machines, their content may not.
std::vector<DatasetRecord> datasets_of(const std::vector<Part>& parts) {
  std::vector<DatasetRecord> known;
  std::vector<const Part*> owners;
  for (const Part& part : parts)
    for (const DatasetRecord& entry : datasets_of(part)) {
      bool is_new = true;
      for (std::size_t i = 0; i < known.size(); ++i) {
        if (known[i].name != entry.name) continue;
        if (const auto differences = content_differences(known[i], entry); !differences.empty())
          refuse(MergeRefusal::other_data, "the {} of the data set {} differs between {} and {}",
                 differences.front().what, entry.name, owners[i]->name, part.name);
        is_new = is_new && known[i].sample_shape != entry.sample_shape;
      }
      if (!is_new) continue;
      known.push_back(entry);
      owners.push_back(&part);
    }
  return known;
}

template <typename T>
void add_new(std::vector<T>& all, const std::vector<T>& others) {
  for (const T& other : others)
    if (std::find(all.begin(), all.end(), other) == all.end()) all.push_back(other);
}

MergedShard merged_shard(const Part& part) {
  const RunRecord& run = part.report.run;
  return {.index = part.shard.index,
          .start = run.start,
          .end = run.end,
          .complete = run.complete,
          .command_line = run.command_line};
}

// Nothing if one of the shards was cut off.
std::optional<std::string> end_of(const std::vector<MergedShard>& shards) {
  std::optional<std::string> latest;
  for (const MergedShard& shard : shards) {
    if (!shard.end) return std::nullopt;
    latest = std::max(latest, shard.end);  // ISO 8601 in UTC sorts as text
  }
  return latest;
}

RunRecord run_of(const std::vector<Part>& parts, const std::vector<std::string>& command_line) {
  RunRecord run = parts.front().report.run;
  run.shard.reset();
  run.quick_seconds.clear();  // differs between shards
  run.command_line = command_line;
  run.datasets = datasets_of(parts);
  run.sessions.clear();
  Merged merged{.count = parts.front().shard.count};
  for (const Part& part : parts) {
    const RunRecord& own = part.report.run;
    if (own.programs) {
      if (!run.programs) run.programs.emplace();
      add_new(*run.programs, *own.programs);
    }
    add_new(run.left_out, own.left_out);
    add_new(run.ended, own.ended);
    run.sessions.insert(run.sessions.end(), own.sessions.begin(), own.sessions.end());
    run.start = std::min(run.start, own.start);
    merged.shards.push_back(merged_shard(part));
  }
  run.end = end_of(merged.shards);
  run.complete =
      std::ssize(merged.shards) == merged.count &&
      std::all_of(merged.shards.begin(), merged.shards.end(), [](const auto& one) { return one.complete; });
  run.merged = std::move(merged);
  return run;
}

CellReport missing_cell(CellReport cell) {
  end_with(cell, ReasonCode::shard_missing,
           fmt::format("{}, whose report was not merged; measure it with --resume", cell.reason));
  derive_from_forks(cell);
  return cell;
}

// Moves the row of the part that measured the cell.
CellReport take_cell(std::vector<Part>& parts, std::size_t i) {
  int sessions = 0;
  for (std::size_t machine = 0; machine < parts.size(); ++machine) {
    Report& report = parts[machine].report;
    if (is_own(report.cells[i])) {
      CellReport cell = std::move(report.cells[i]);
      cell.environment = static_cast<int>(machine);
      for (Fork& fork : cell.forks)
        if (fork.session) *fork.session += sessions;
      return cell;
    }
    sessions += static_cast<int>(report.run.sessions.size());
  }
  return missing_cell(std::move(parts.front().report.cells[i]));
}

// Numbers the forks of all shards by time. A shard keeps its own order, even if its clock was set back.
void number_forks(Report& report) {
  std::map<int, std::vector<Fork*>> by_machine;
  for (CellReport& cell : report.cells)
    for (Fork& fork : cell.forks)
      if (fork.order) by_machine[*cell.environment].push_back(&fork);
  std::vector<std::tuple<std::string, int, int, Fork*>> all;
  for (auto& [machine, forks] : by_machine) {
    std::sort(forks.begin(), forks.end(), [](const Fork* a, const Fork* b) { return *a->order < *b->order; });
    std::string latest;
    for (Fork* fork : forks) {
      latest = std::max(latest, fork->start);
      all.emplace_back(latest, machine, *fork->order, fork);
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a)) <
           std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(b));
  });
  int next = 0;
  for (auto& entry : all) std::get<Fork*>(entry)->order = next++;
}

}  // namespace

Report merge(std::vector<MergePart> given, const std::vector<std::string>& command_line) {
  std::vector<Part> parts;
  for (MergePart& part : given) parts.push_back(part_of(std::move(part)));
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.shard.index < b.shard.index; });
  for (const Part& part : parts) {
    require_same_build(parts.front(), part);
    require_same_plan(parts.front(), part);
  }
  reject_overlap(parts);
  require_same_libraries(parts);
  require_same_adapters(parts);
  require_same_weights(parts);
  Report report;
  report.schema = report_schema;
  report.run = run_of(parts, command_line);
  for (const Part& part : parts) {
    report.environments.push_back(part.report.environment);
    add_hosts(report.hosts, part.report.hosts);
  }
  report.environment = report.environments.front();
  for (std::size_t i = 0; i < parts.front().report.cells.size(); ++i)
    report.cells.push_back(take_cell(parts, i));
  number_forks(report);
  if (const std::vector<std::string> faults = invariant_violations(report); !faults.empty())
    refuse(MergeRefusal::contradiction, "the reports contradict each other: {}",
           one_line(faults.front(), 400));
  return report;
}

std::string merge_refusal_reference() {
  struct Meaning {
    MergeRefusal code;
    std::string_view text;
  };
  static constexpr std::array meanings{
      Meaning{MergeRefusal::not_a_shard, "the report is of a whole run, not of `assay run --shard`"},
      Meaning{MergeRefusal::already_merged, "the report is a merged one"},
      Meaning{MergeRefusal::other_schema, "the report has the schema of another version"},
      Meaning{MergeRefusal::other_build, "commit, local changes, version or compiler of the program differ"},
      Meaning{MergeRefusal::other_config,
              "the configs or the options differ (folders of data and interpreters may)"},
      Meaning{MergeRefusal::other_shards, "the runs were cut into different numbers of shards"},
      Meaning{MergeRefusal::other_cells,
              "the same config made other cells, because backends or processors differ"},
      Meaning{MergeRefusal::duplicate_forks, "two reports have the same forks: one is a copy"},
      Meaning{MergeRefusal::overlapping_cells, "two reports measured the same cell"},
      Meaning{MergeRefusal::other_libraries,
              "a backend or a library has two versions, or a backend other scripts"},
      Meaning{MergeRefusal::other_data, "a data set, or the file of --weights, has two contents"},
      Meaning{MergeRefusal::contradiction,
              "the joined report would break an invariant, such as one seed for each round"}};
  static_assert(meanings.size() == words<MergeRefusal>.size());
  std::string table = "| code | why the reports are not merged |\n|---|---|\n";
  for (const Meaning& meaning : meanings)
    table += fmt::format("| `{}` | {} |\n", to_string(meaning.code), meaning.text);
  return table;
}

}  // namespace assay

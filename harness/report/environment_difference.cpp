#include "harness/report/environment_difference.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/io/sha256.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

}  // namespace

Json field_at(const Json& document, const char* pointer) {
  const Json::json_pointer path(pointer);
  return document.contains(path) ? document.at(path) : Json(nullptr);
}

namespace {

Json gpu_models(const Json& environment) {
  Json models = Json::array();
  if (const Json gpus = field_at(environment, "/gpus"); gpus.is_array())
    for (const Json& gpu : gpus) models.push_back(field_at(gpu, "/model"));
  return models;
}

}  // namespace

std::optional<std::string> machine_fingerprint(const Json& environment) {
  const Json model = field_at(environment, "/cpu/model"), allowed = field_at(environment, "/cpu/allowed");
  if (!model.is_string() || !allowed.is_number()) return std::nullopt;
  const Json key{model, field_at(environment, "/cpu/architecture"), allowed,
                 field_at(environment, "/control_group/cpu_quota"), gpu_models(environment)};
  return sha256(key.dump(-1, ' ', true, Json::error_handler_t::replace)).substr(0, 12);
}

const Json& machine_of(const Report& report, const CellReport& cell) {
  const std::vector<Json>& all = report.environments;
  const int index = cell.environment.value_or(-1);
  return index >= 0 && static_cast<std::size_t>(index) < all.size() ? all[static_cast<std::size_t>(index)]
                                                                    : report.environment;
}

std::vector<const Json*> machines_of(const Report& report) {
  if (report.environments.empty()) return {&report.environment};
  std::vector<const Json*> machines;
  for (const Json& machine : report.environments) machines.push_back(&machine);
  return machines;
}

std::optional<std::string> shared_fingerprint(const Report& report) {
  std::optional<std::string> shared;
  for (const Json* machine : machines_of(report)) {
    const auto one = machine_fingerprint(*machine);
    if (!one || (shared && *shared != *one)) return std::nullopt;
    shared = one;
  }
  return shared;
}

std::string machine_text(const Json& environment) {
  const Json model = field_at(environment, "/cpu/model"), allowed = field_at(environment, "/cpu/allowed");
  std::string text = fmt::format("{} logical CPUs of {}", allowed.is_number() ? allowed.dump() : "some",
                                 model.is_string() ? model.get<std::string>() : "an unknown processor");
  for (const Json& gpu : gpu_models(environment))
    if (gpu.is_string()) text += ", " + gpu.get<std::string>();
  return text;
}

namespace {

using Json = nlohmann::json;

struct ComparedField {
  const char* what;
  const char* pointer;
  bool hard;
  const char* of_each = nullptr;  // for a list: compare only this field of each entry
};
constexpr const char* gpu_driver = "the GPUs' driver";
// Never compare a host name, a frequency or an uptime: they make one machine look like many.
constexpr ComparedField compared_rows[] = {
    {"the processor", "/cpu/model", true},
    {"its architecture", "/cpu/architecture", true},
    {"the logical CPUs that may be used", "/cpu/allowed", true},
    {"the GPUs", "/gpus", true, "/model"},
    {"the container's share of processors", "/control_group/cpu_quota", true},
    {"the frequency governor", "/cpu/governor", false},
    {"the boost of the clock", "/cpu/boost", false},
    {gpu_driver, "/nvml/driver", false},
    {"the kernel", "/kernel", false},
    {"the operating system", "/os", false},
    {"address randomisation", "/address_randomisation", false},
    {"huge pages", "/memory/huge_pages", false},
};

std::string shown(const Json& value) {
  if (value.is_null()) return "not known";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Json compared(const Json& environment, const ComparedField& field) {
  Json value = field_at(environment, field.pointer);
  if (!field.of_each || !value.is_array()) return value;
  for (Json& entry : value) entry = field_at(entry, field.of_each);
  return value;
}

std::set<std::string> ids(const Report& report) {
  std::set<std::string> found;
  for (const CellReport& cell : report.cells) found.insert(cell.id);
  return found;
}

bool any_on_cuda(const Report& report, const std::set<std::string>& shared) {
  return std::any_of(report.cells.begin(), report.cells.end(), [&](const CellReport& cell) {
    return cell.axes.device == DeviceKind::cuda && cell.status == Status::ok && shared.contains(cell.id);
  });
}

// Versions of "<backend>" and "<backend>: <library>", for the cells in `shared`.
std::map<std::string, std::string> versions(const Report& report, const std::set<std::string>& shared) {
  std::map<std::string, std::string> found;
  for (const CellReport& cell : report.cells) {
    if (!shared.contains(cell.id) || cell.status != Status::ok) continue;
    found[cell.axes.backend] = cell.backend_version;
    for (const Json& library : cell.libraries)
      if (library.contains("name") && library.contains("version"))
        found[fmt::format("{}: {}", cell.axes.backend, shown(library["name"]))] = shown(library["version"]);
  }
  return found;
}

std::set<std::string> shared_ids(const Report& base, const Report& current) {
  const std::set<std::string> left = ids(base);
  std::set<std::string> shared;
  for (const CellReport& cell : current.cells)
    if (left.contains(cell.id)) shared.insert(cell.id);
  return shared;
}

// The differences between the machines of every two cells with the same id, each once.
std::vector<EnvironmentDifference> differences_of_cells(const Report& base, const Report& current) {
  if (base.environments.empty() && current.environments.empty())
    return machine_differences(base.environment, current.environment);
  std::map<std::string_view, const CellReport*> there;
  for (const CellReport& cell : base.cells) there.emplace(cell.id, &cell);
  std::vector<std::pair<const Json*, const Json*>> pairs;
  for (const CellReport& cell : current.cells) {
    const auto other = there.find(cell.id);
    if (other == there.end()) continue;
    const std::pair pair(&machine_of(base, *other->second), &machine_of(current, cell));
    if (std::find(pairs.begin(), pairs.end(), pair) == pairs.end()) pairs.push_back(pair);
  }
  std::vector<EnvironmentDifference> found;
  for (const auto& [was, is] : pairs)
    for (EnvironmentDifference& one : machine_differences(*was, *is))
      if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(std::move(one));
  return found;
}

}  // namespace

std::vector<std::string> compared_fields() {
  std::vector<std::string> pointers;
  for (const ComparedField& field : compared_rows) pointers.emplace_back(field.pointer);
  return pointers;
}

std::vector<EnvironmentDifference> machine_differences(const Json& base, const Json& current) {
  std::vector<EnvironmentDifference> found;
  for (const ComparedField& field : compared_rows) {
    const Json was = compared(base, field), is = compared(current, field);
    if (was != is) found.push_back({field.what, shown(was), shown(is), field.hard});
  }
  return found;
}

std::map<std::string, std::string> identity_of(const Report& report) {
  const std::set<std::string> all = ids(report);
  const bool on_cuda = any_on_cuda(report, all);
  std::map<std::string, std::string> found = versions(report, all);
  for (const ComparedField& field : compared_rows)
    if (field.hard || (on_cuda && field.what == std::string_view(gpu_driver)))
      found[field.what] = shown(compared(report.environment, field));
  if (const Json commit = field_at(report.run, "/commit"); !commit.is_null())
    found["the commit of the program"] = shown(commit);
  if (const Json dirty = field_at(report.run, "/dirty"); !dirty.is_null())
    found["whether its sources had changes of their own"] = shown(dirty);
  return found;
}

std::vector<EnvironmentDifference> environment_differences(const Report& base, const Report& current) {
  std::vector<EnvironmentDifference> found = differences_of_cells(base, current);
  const auto shared = shared_ids(base, current);
  if (any_on_cuda(current, shared)) {
    for (EnvironmentDifference& difference : found)
      if (difference.what == gpu_driver) difference.hard = true;
  }
  const auto was = versions(base, shared), is = versions(current, shared);
  for (const auto& [what, version] : was) {
    const auto other = is.find(what);
    if (other != is.end() && other->second != version)
      found.push_back({"the version of " + what, version, other->second, true});
  }
  const auto style = [](const Report& report) {
    const Json value = field_at(report.run, "/settings/fork_style");
    return value.is_null() ? std::string("fresh") : shown(value);
  };
  if (style(base) != style(current))
    found.push_back({"whether forks share a process", style(base), style(current), true});
  const auto built = [](const Report& report) { return shown(field_at(report.run, "/dirty")); };
  if (built(base) != built(current))
    found.push_back({"whether the sources had local changes", built(base), built(current), false});
  return found;
}

}  // namespace assay

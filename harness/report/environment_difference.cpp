#include "harness/report/environment_difference.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
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
  DifferenceKind kind = DifferenceKind::system;
  // For a list: compare only these fields of each entry; an empty name stands for the entry itself. The order of the
  // entries does not matter.
  std::vector<const char*> of_each{};
  bool is_new = false;  // reports of earlier versions do not have it
};
constexpr const char* gpu_driver = "the GPUs' driver";
constexpr const char* gpu_driver_at = "/nvml/driver";
constexpr const char* processor_model = "/cpu/model";
constexpr const char* loop_seconds_at = "/cpu/loop_seconds";
// Another hardware thread on its core makes the loop up to 12 % slower.
constexpr double max_speed_difference = 0.15;

// Never compare a host name, a frequency or an uptime: they make one machine look like many.
const std::vector<ComparedField>& compared_rows() {
  using enum DifferenceKind;
  static const std::vector<ComparedField> rows{
      {"the processor", processor_model, true, processor},
      {"its vendor", "/cpu/vendor", true, processor},
      {"its family", "/cpu/family", true, processor, {}, true},
      {"the number of its model", "/cpu/model_number", true, processor, {}, true},
      {"its stepping", "/cpu/stepping", true, processor, {}, true},
      {"its architecture", "/cpu/architecture", true, processor},
      {"its instruction sets", "/cpu/instruction_sets", true, processor, {""}},
      {"its caches", "/cpu/caches", true, processor, {"level", "type", "bytes", "shared_by"}},
      {"the logical CPUs that may be used", "/cpu/allowed", true, cpus},
      {"the container's share of processors", "/control_group/cpu_quota", true, cpus},
      {"the GPUs", "/gpus", true, gpu, {"model"}},
      {"the microcode", "/cpu/microcode", false},
      {"the frequency governor", "/cpu/governor", false},
      {"the boost of the clock", "/cpu/boost", false},
      {gpu_driver, gpu_driver_at, false, driver},
      {"the kernel", "/kernel", false},
      {"the operating system", "/os", false},
      {"address randomisation", "/address_randomisation", false},
      {"huge pages", "/memory/huge_pages", false},
      {"the scheduling", "/scheduling", false, system, {}, true},
  };
  return rows;
}

std::string shown(const Json& value) {
  if (value.is_null()) return "not known";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The value for a reader who sees that it differs from the other one: of a list, only what the other does not have.
std::string shown_next_to(const Json& value, const Json& other) {
  if (!value.is_array() || !other.is_array()) return shown(value);
  const auto missing = [](const Json& list, const Json& from) {
    std::vector<std::string> texts;
    for (const Json& entry : list)
      if (std::ranges::find(from, entry) == from.end()) texts.push_back(shown(entry));
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  const std::string own = missing(value, other), others = missing(other, value);
  if (own.empty() && others.empty()) return shown(value);  // the same entries in other numbers
  return own.empty() ? "without " + others : own;
}

// Whether the machine names its processor. On Arm the kernel gives its number and no name.
bool is_known(const Json& environment) {
  return field_at(environment, processor_model).is_string() ||
         field_at(environment, "/cpu/model_number").is_string();
}

bool has(const Json& environment, const ComparedField& field) {
  return environment.contains(Json::json_pointer(field.pointer));
}

Json compared(const Json& environment, const ComparedField& field) {
  Json value = field_at(environment, field.pointer);
  if (field.of_each.empty() || !value.is_array()) return value;
  for (Json& entry : value) {
    if (!entry.is_object()) continue;
    Json kept = Json::array();
    for (const char* name : field.of_each) kept.push_back(field_at(entry, fmt::format("/{}", name).c_str()));
    entry = kept.size() == 1 ? Json(kept.front()) : std::move(kept);
  }
  std::sort(value.begin(), value.end());
  return value;
}

std::optional<double> measured_number(const Json& document, const char* pointer) {
  const Json value = field_at(document, pointer);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::optional<EnvironmentDifference> speed_difference(const Json& base, const Json& current) {
  const auto ratio = loop_ratio(base, current);
  if (!ratio || std::max(*ratio, 1 / *ratio) <= 1 + max_speed_difference) return std::nullopt;
  const auto text = [](const Json& machine) {
    return fmt::format("{:.3g} us", 1e6 * measured_number(machine, loop_seconds_at).value_or(0));
  };
  return EnvironmentDifference{.what = "the time of a fixed loop on its processor",
                               .base = text(base),
                               .current = text(current),
                               .hard = true,
                               .kind = DifferenceKind::speed};
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

struct Loaded {
  std::set<std::string> versions;  // a process may load several files of one name
  LibraryOrigin origin = LibraryOrigin::given;
};
// By backend and library; the backend itself has no library name. Of the cells in `shared`.
using LoadedLibraries = std::map<std::pair<std::string, std::string>, Loaded>;

LoadedLibraries loaded(const Report& report, const std::set<std::string>& shared) {
  LoadedLibraries found;
  for (const CellReport& cell : report.cells) {
    if (!shared.contains(cell.id) || cell.status != Status::ok) continue;
    found[{cell.axes.backend, ""}].versions.insert(cell.backend_version);
    for (const protocol::Library& library : cell.libraries) {
      Loaded& one = found[{cell.axes.backend, library.name}];
      one.versions.insert(library.version);
      one.origin = origin_of(library);
    }
  }
  return found;
}

std::string text_of(const std::pair<std::string, std::string>& name) {
  return name.second.empty() ? name.first : fmt::format("{}: {}", name.first, name.second);
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

LibraryOrigin origin_of(const protocol::Library& library) {
  // What a C or C++ program and Python load besides the libraries that compute.
  static const std::set<std::string, std::less<>> of_the_system{
      "libc",      "libm",     "libdl",       "libpthread", "librt",    "libutil",    "libresolv",
      "libcrypt",  "libgcc_s", "libstdc++",   "libz",       "libzstd",  "libbz2",     "liblzma",
      "libcrypto", "libssl",   "libffi",      "libuuid",    "libexpat", "libsqlite3", "libfmt",
      "libjpeg",   "libhwloc", "libreadline", "libtinfo",   "libudev",  "libcap"};
  const std::string& name = library.name;
  if (library.under_test || name.starts_with("assay-worker-") || name.starts_with("libassay_"))
    return LibraryOrigin::under_test;
  return of_the_system.contains(name) || name.starts_with("ld-linux") || name.starts_with("libnss_")
             ? LibraryOrigin::system
             : LibraryOrigin::given;
}

std::optional<double> loop_ratio(const Json& base, const Json& current) {
  const auto was = measured_number(base, loop_seconds_at), is = measured_number(current, loop_seconds_at);
  if (!was || !is || !(*was > 0) || !(*is > 0)) return std::nullopt;
  return *is / *was;
}

std::vector<std::string> compared_fields() {
  std::vector<std::string> pointers{loop_seconds_at};
  for (const ComparedField& field : compared_rows()) pointers.emplace_back(field.pointer);
  return pointers;
}

std::optional<std::string> machine_fingerprint(const Json& environment) {
  if (!is_known(environment) || !field_at(environment, "/cpu/allowed").is_number()) return std::nullopt;
  Json key = Json::array();
  for (const ComparedField& field : compared_rows())
    if (field.hard) key.push_back(compared(environment, field));
  return sha256(key.dump(-1, ' ', true, Json::error_handler_t::replace)).substr(0, 12);
}

std::vector<EnvironmentDifference> machine_differences(const Json& base, const Json& current) {
  std::vector<EnvironmentDifference> found;
  for (const ComparedField& field : compared_rows()) {
    const bool lacks = field.is_new && has(base, field) != has(current, field);
    const Json was = compared(base, field), is = compared(current, field);
    const bool nobody_knows =
        std::string_view(field.pointer) == processor_model && !is_known(base) && !is_known(current);
    if (was != is || nobody_knows)
      found.push_back(
          {field.what, shown_next_to(was, is), shown_next_to(is, was), field.hard && !lacks, field.kind});
  }
  if (auto speed = speed_difference(base, current)) found.push_back(std::move(*speed));
  return found;
}

std::optional<EnvironmentDifference> other_machine(const Json& then, const Json& now) {
  for (EnvironmentDifference& one : machine_differences(then, now))
    if (one.hard) return std::move(one);
  return std::nullopt;
}

Json machine_identity(const Json& environment) {
  Json kept = Json::object();
  for (const std::string& field : compared_fields()) {
    const Json::json_pointer pointer(field);
    if (environment.contains(pointer)) kept[pointer] = environment.at(pointer);
  }
  return kept;
}

std::map<std::string, std::string> software_of(const Report& report) {
  const std::set<std::string> all = ids(report);
  std::map<std::string, std::string> found;
  for (const auto& [name, library] : loaded(report, all))
    found[text_of(name)] = fmt::format("{}", fmt::join(library.versions, " and "));
  if (any_on_cuda(report, all)) found[gpu_driver] = shown(field_at(report.environment, gpu_driver_at));
  found["the commit of the program"] = report.run.commit;
  found["whether its sources had changes of their own"] = fmt::format("{}", report.run.dirty);
  return found;
}

std::vector<EnvironmentDifference> environment_differences(const Report& base, const Report& current) {
  std::vector<EnvironmentDifference> found = differences_of_cells(base, current);
  const auto shared = shared_ids(base, current);
  if (any_on_cuda(current, shared)) {
    for (EnvironmentDifference& difference : found)
      if (difference.kind == DifferenceKind::driver) difference.hard = true;
  }
  const LoadedLibraries was = loaded(base, shared), is = loaded(current, shared);
  for (const auto& [name, library] : was) {
    const auto other = is.find(name);
    if (other == is.end() || other->second.versions == library.versions) continue;
    const LibraryOrigin origin = std::min(library.origin, other->second.origin);
    if (origin == LibraryOrigin::under_test) continue;
    found.push_back({.what = "the version of " + text_of(name),
                     .base = fmt::format("{}", fmt::join(library.versions, " and ")),
                     .current = fmt::format("{}", fmt::join(other->second.versions, " and ")),
                     .hard = origin == LibraryOrigin::given,
                     .kind = DifferenceKind::libraries,
                     .backend = name.first,
                     .library = name.second});
  }
  const auto style = [](const Report& report) { return report.run.settings.fork_style.value_or("fresh"); };
  if (style(base) != style(current))
    found.push_back(
        {"whether forks share a process", style(base), style(current), true, DifferenceKind::fork_style});
  const auto built = [](const Report& report) { return fmt::format("{}", report.run.dirty); };
  if (built(base) != built(current))
    found.push_back({"whether the sources had local changes", built(base), built(current), false});
  return found;
}

}  // namespace assay

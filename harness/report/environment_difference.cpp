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
#include "harness/core/json/encode.hpp"

namespace assay {
const MachineRecord& machine_of(const Report& report, const CellReport& cell) {
  const std::vector<MachineRecord>& all = report.environments;
  const int index = cell.environment.value_or(-1);
  return index >= 0 && static_cast<std::size_t>(index) < all.size() ? all[static_cast<std::size_t>(index)]
                                                                    : report.environment;
}

std::vector<const MachineRecord*> machines_of(const Report& report) {
  if (report.environments.empty()) return {&report.environment};
  std::vector<const MachineRecord*> machines;
  for (const MachineRecord& machine : report.environments) machines.push_back(&machine);
  return machines;
}

std::optional<std::string> shared_fingerprint(const Report& report) {
  std::optional<std::string> shared;
  for (const MachineRecord* machine : machines_of(report)) {
    const auto one = machine_fingerprint(*machine);
    if (!one || (shared && *shared != *one)) return std::nullopt;
    shared = one;
  }
  return shared;
}

std::string machine_text(const MachineRecord& machine) {
  const auto& cpu = machine.cpu;
  std::string text = fmt::format("{} logical CPUs of {}", cpu.allowed ? std::to_string(*cpu.allowed) : "some",
                                 cpu.model.value_or("an unknown processor"));
  if (machine.gpus)
    for (const GpuRecord& gpu : *machine.gpus)
      if (gpu.model) text += ", " + *gpu.model;
  return text;
}

namespace {

using Json = nlohmann::json;

// A value of machines that is compared.
struct ComparedField {
  const char* what;
  bool hard;
  DifferenceKind kind;
  bool is_new;                          // reports of earlier versions do not have it
  Json (*value)(const MachineRecord&);  // null: not known; the order of a list does not matter
  bool (*is_asked)(const MachineRecord&);
  void (*copy)(const MachineRecord& from, MachineRecord& to);
};

// A member of a machine, or of a part of it.
template <auto... Path>
struct At {
  static Json value(const MachineRecord& machine) { return encode((machine.*....*Path)); }
  static bool is_asked(const MachineRecord& machine) { return (machine.*....*Path).is_asked(); }
  static void copy(const MachineRecord& from, MachineRecord& to) { (to.*....*Path) = (from.*....*Path); }
};

template <auto... Path>
ComparedField compared(const char* what, bool is_hard, DifferenceKind kind = DifferenceKind::system,
                       bool is_new_field = false, Json (*value)(const MachineRecord&) = &At<Path...>::value) {
  return {what, is_hard, kind, is_new_field, value, &At<Path...>::is_asked, &At<Path...>::copy};
}

template <typename List, typename Entry>
Json sorted(const Reported<List>& list, Entry entry) {
  if (!list) return nullptr;
  Json all = Json::array();
  for (const auto& one : *list) all.push_back(entry(one));
  std::sort(all.begin(), all.end());
  return all;
}
Json instruction_sets(const MachineRecord& machine) {
  return sorted(machine.cpu.instruction_sets, [](const std::string& name) { return Json(name); });
}
Json caches(const MachineRecord& machine) {
  return sorted(machine.cpu.caches, [](const CacheRecord& cache) {
    return Json{cache.level, cache.type, cache.bytes, cache.shared_by};
  });
}
Json gpu_models(const MachineRecord& machine) {
  return sorted(machine.gpus, [](const GpuRecord& gpu) { return encode(gpu.model); });
}

constexpr const char* gpu_driver = "the GPUs' driver";
constexpr const char* the_processor = "the processor";
// Another hardware thread on its core makes the loop up to 12 % slower.
constexpr double max_speed_difference = 0.15;

// Never compare a host name, a frequency or an uptime: they make one machine look like many. The fingerprint is made of
// the hard ones in this order: another order is another fingerprint.
const std::vector<ComparedField>& compared_fields() {
  using enum DifferenceKind;
  using M = MachineRecord;
  using P = ProcessorRecord;
  constexpr bool hard = true, soft = false, is_new = true;
  static const std::vector<ComparedField> rows{
      compared<&M::cpu, &P::model>(the_processor, hard, processor),
      compared<&M::cpu, &P::vendor>("its vendor", hard, processor),
      compared<&M::cpu, &P::family>("its family", hard, processor, is_new),
      compared<&M::cpu, &P::model_number>("the number of its model", hard, processor, is_new),
      compared<&M::cpu, &P::stepping>("its stepping", hard, processor, is_new),
      compared<&M::cpu, &P::architecture>("its architecture", hard, processor),
      compared<&M::cpu, &P::instruction_sets>("its instruction sets", hard, processor, false,
                                              instruction_sets),
      compared<&M::cpu, &P::caches>("its caches", hard, processor, false, caches),
      compared<&M::cpu, &P::allowed>("the logical CPUs that may be used", hard, cpus),
      compared<&M::control_group, &ControlGroupRecord::cpu_quota>("the container's share of processors", hard,
                                                                  cpus),
      compared<&M::gpus>("the GPUs", hard, gpu, false, gpu_models),
      compared<&M::cpu, &P::microcode>("the microcode", soft),
      compared<&M::cpu, &P::governor>("the frequency governor", soft),
      compared<&M::cpu, &P::boost>("the boost of the clock", soft),
      compared<&M::nvml, &NvmlRecord::driver>(gpu_driver, soft, driver),
      compared<&M::kernel>("the kernel", soft),
      compared<&M::os>("the operating system", soft),
      compared<&M::address_randomisation>("address randomisation", soft),
      compared<&M::memory, &MemoryRecord::huge_pages>("huge pages", soft),
      compared<&M::scheduling>("the scheduling", soft, system, is_new),
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
bool is_known(const MachineRecord& machine) { return machine.cpu.model || machine.cpu.model_number; }

std::optional<EnvironmentDifference> speed_difference(const MachineRecord& base,
                                                      const MachineRecord& current) {
  const auto ratio = loop_ratio(base, current);
  if (!ratio || std::max(*ratio, 1 / *ratio) <= 1 + max_speed_difference) return std::nullopt;
  const auto text = [](const MachineRecord& machine) {
    return fmt::format("{:.3g} us", 1e6 * machine.cpu.loop_seconds.value_or(0));
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
  std::vector<std::pair<const MachineRecord*, const MachineRecord*>> pairs;
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

std::optional<double> loop_ratio(const MachineRecord& base, const MachineRecord& current) {
  const double was = base.cpu.loop_seconds.value_or(0), is = current.cpu.loop_seconds.value_or(0);
  if (!(was > 0) || !(is > 0)) return std::nullopt;
  return is / was;
}

std::optional<std::string> machine_fingerprint(const MachineRecord& machine) {
  if (!is_known(machine) || !machine.cpu.allowed) return std::nullopt;
  Json key = Json::array();
  for (const ComparedField& field : compared_fields())
    if (field.hard) key.push_back(field.value(machine));
  return sha256(key.dump(-1, ' ', true, Json::error_handler_t::replace)).substr(0, 12);
}

std::vector<EnvironmentDifference> machine_differences(const MachineRecord& base,
                                                       const MachineRecord& current) {
  std::vector<EnvironmentDifference> found;
  for (const ComparedField& field : compared_fields()) {
    const bool lacks = field.is_new && field.is_asked(base) != field.is_asked(current);
    const Json was = field.value(base), is = field.value(current);
    const bool nobody_knows = field.what == the_processor && !is_known(base) && !is_known(current);
    if (was != is || nobody_knows)
      found.push_back(
          {field.what, shown_next_to(was, is), shown_next_to(is, was), field.hard && !lacks, field.kind});
  }
  if (auto speed = speed_difference(base, current)) found.push_back(std::move(*speed));
  return found;
}

std::optional<EnvironmentDifference> other_machine(const MachineRecord& then, const MachineRecord& now) {
  for (EnvironmentDifference& one : machine_differences(then, now))
    if (one.hard) return std::move(one);
  return std::nullopt;
}

MachineRecord machine_identity(const MachineRecord& machine) {
  MachineRecord kept;
  for (const ComparedField& field : compared_fields()) field.copy(machine, kept);
  kept.cpu.loop_seconds = machine.cpu.loop_seconds;
  return kept;
}

std::map<std::string, std::string> software_of(const Report& report) {
  const std::set<std::string> all = ids(report);
  std::map<std::string, std::string> found;
  for (const auto& [name, library] : loaded(report, all))
    found[text_of(name)] = fmt::format("{}", fmt::join(library.versions, " and "));
  if (any_on_cuda(report, all)) found[gpu_driver] = shown(encode(report.environment.nvml.driver));
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

// assay env: the machine, and the causes of noise on it.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/build_info.hpp"
#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/machine/environment.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay::cli {
namespace {

using Json = nlohmann::json;

std::string text(const std::string& value) { return value; }
std::string text(bool value) { return value ? "yes" : "no"; }
std::string text(int value) { return fmt::format("{}", value); }
std::string text(std::int64_t value) { return fmt::format("{}", value); }
std::string text(double value) { return Json(value).dump(); }
template <typename T>
std::string text(const std::vector<T>& list) {
  std::string out;
  for (const T& item : list) out += (out.empty() ? "" : " ") + text(item);
  return out.empty() ? "none" : out;
}
// "unknown" if the machine does not report the value.
template <typename T>
std::string text(const Reported<T>& value) {
  return value ? text(*value) : "unknown";
}

std::string bytes(std::int64_t value) { return format_value(static_cast<double>(value), Hint::bytes, "B"); }
std::string bytes(const Reported<std::int64_t>& value) { return value ? bytes(*value) : "unknown"; }

std::string caches(const Reported<std::vector<CacheRecord>>& list) {
  if (!list || list->empty()) return "unknown";
  std::vector<std::string> texts;
  for (const CacheRecord& cache : *list)
    texts.push_back(fmt::format("L{} {} {} x {} for {}", cache.level, cache.type, cache.count,
                                bytes(cache.bytes), cache.shared_by));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// "2 cores", or "unknown cores".
template <typename T>
std::string counted(const Reported<T>& number, const char* one) {
  return text(number) + " " + one + (number && *number == 1 ? "" : "s");
}

std::string limits(const ControlGroupRecord& group) {
  if (!group.version) return "none";
  return fmt::format("version {}, {}, {} memory", *group.version,
                     group.cpu_quota ? counted(group.cpu_quota, "core") : "all cores",
                     group.memory_limit ? bytes(*group.memory_limit) : "all");
}

std::string clock(const Reported<double>& hertz) {
  return hertz ? fmt::format("{:.0f} MHz", 1e-6 * *hertz) : "unknown";
}

// Without NVML only the model and the bus address are known.
std::string gpu_text(const GpuRecord& gpu) {
  std::string out = fmt::format("{} at {}", text(gpu.model), text(gpu.bus));
  if (!gpu.uuid.is_asked()) return out;
  return out + fmt::format(
                   ", {}, {}; clocks to {} and {} (memory), application clock {}; MIG {}, persistence {}, "
                   "compute mode {}",
                   text(gpu.uuid), bytes(gpu.memory), clock(gpu.sm_clock_limit_hz),
                   clock(gpu.memory_clock_limit_hz), clock(gpu.sm_application_clock_hz), text(gpu.mig),
                   text(gpu.persistence), text(gpu.compute_mode));
}

Table table_of(const MachineRecord& machine) {
  const ProcessorRecord& cpu = machine.cpu;
  const MemoryRecord& memory = machine.memory;
  const BuildInfo& build = build_info();
  Table table{.title = "This machine", .columns = {{""}, {""}}, .rows = {}, .notes = {}};
  const auto add = [&](const char* what, std::string value) {
    table.rows.push_back({{what, Tone::quiet}, {std::move(value)}});
  };
  add("program", fmt::format("assay {} {}{}, {} {}", build.version, build.commit,
                             build.dirty ? " (changed)" : "", build.compiler, build.build_type));
  add("built with", build.flags.empty() ? "no flags" : std::string(build.flags));
  add("host", fmt::format("{}, {}, {}", text(machine.host), text(machine.os), text(machine.kernel)));
  add("processor", fmt::format("{} ({})", text(cpu.model), text(cpu.vendor)));
  add("cores", fmt::format("{} of {} logical allowed; {} in {}, {}", text(cpu.allowed), text(cpu.logical),
                           counted(cpu.cores, "core"), counted(cpu.sockets, "socket"),
                           counted(cpu.numa_nodes, "NUMA node")));
  add("instructions", text(cpu.instruction_sets));
  add("caches", caches(cpu.caches));
  add("clock rate",
      fmt::format("governor {}, driver {}, boost {}", text(cpu.governor), text(cpu.driver), text(cpu.boost)));
  add("hyper-threading",
      fmt::format("{}, {} a core", text(cpu.smt), counted(cpu.threads_per_core, "thread")));
  add("control group", limits(machine.control_group));
  add("address randomisation", text(machine.address_randomisation));
  add("scheduling", text(machine.scheduling));
  add("memory", fmt::format("{}, {} free; swap {}; transparent huge pages {}", bytes(memory.total),
                            bytes(memory.available), bytes(memory.swap_total), text(memory.huge_pages)));
  add("clock", fmt::format("{} from {}, {} ns apart, {:.0f} ns a reading", text(machine.clock.name),
                           text(machine.clock.source), text(machine.clock.resolution_ns),
                           machine.clock.cost_ns.value_or(0)));
  add("load", text(machine.load_average));
  const NvmlRecord& nvml = machine.nvml;
  add("GPU driver",
      nvml.reason ? *nvml.reason : fmt::format("{}, for CUDA up to {}", text(nvml.driver), text(nvml.cuda)));
  const std::vector<GpuRecord> none, &gpus = machine.gpus ? *machine.gpus : none;
  for (const GpuRecord& gpu : gpus) add("GPU", gpu_text(gpu));
  if (gpus.empty()) add("GPUs", "none");
  return table;
}

int env(bool json) {
  const MachineRecord machine = environment();
  if (json) {
    const BuildInfo& build = build_info();
    Json facts = encode(machine);
    facts["program"] = {{"version", build.version},       {"commit", build.commit},
                        {"dirty", build.dirty},           {"compiler", build.compiler},
                        {"build_type", build.build_type}, {"flags", build.flags}};
    print_json(facts);
    return fine;
  }
  Table causes{.title = "Causes of noise on this machine",
               .columns = {{"observed"}, {"remedy"}},
               .rows = {},
               .notes = {}};
  for (const UnsteadyCause& cause : *machine.unsteady)
    causes.rows.push_back({{cause.what, Tone::doubtful}, {cause.remedy}});
  if (causes.rows.empty())
    causes = {.title = "No known cause of noise on this machine.", .columns = {}, .rows = {}, .notes = {}};
  print({table_of(machine), causes});
  return fine;
}

int print_fingerprint() {
  const auto fingerprint = machine_fingerprint(environment());
  if (!fingerprint) {
    warn("this machine has no fingerprint: it does not report its processor");
    return own_failure;
  }
  print(*fingerprint + "\n");
  return fine;
}

}  // namespace

void add_env(CLI::App& app, Context& context) {
  auto json = std::make_shared<bool>(false);
  auto fingerprint = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("env", "Show the machine, libraries, clocks and causes of noise");
  command->add_flag("--json", *json, "Print JSON");
  command->add_flag("--fingerprint", *fingerprint,
                    "Print only the key of this machine, which names baselines and calibrations");
  add_examples(*command, {"assay env"});
  command->callback([json, fingerprint, &context] {
    context.action = [json, fingerprint] { return *fingerprint ? print_fingerprint() : env(*json); };
  });
}

}  // namespace assay::cli

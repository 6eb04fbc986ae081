// assay env: the machine, and the causes of noise on it.
#include <memory>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/build_info.hpp"
#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/machine/environment.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay::cli {
namespace {

using Json = nlohmann::json;

// "unknown" if the machine does not report the value.
std::string text(const Json& value) {
  if (value.is_null()) return "unknown";
  if (value.is_boolean()) return value == true ? "yes" : "no";
  if (value.is_array()) {
    std::string out;
    for (const Json& item : value) out += (out.empty() ? "" : " ") + text(item);
    return out.empty() ? "none" : out;
  }
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string bytes(const Json& value) {
  return value.is_number() ? format_value(value.get<double>(), Hint::bytes, "B") : text(value);
}

std::string caches(const Json& list) {
  std::string out;
  for (const Json& cache : list)
    out += fmt::format("{}L{} {} {} x {} for {}", out.empty() ? "" : ", ", text(cache["level"]),
                       text(cache["type"]), text(cache["count"]), bytes(cache["bytes"]),
                       text(cache["shared_by"]));
  return out.empty() ? "unknown" : out;
}

// "2 cores", or "unknown cores".
std::string counted(const Json& number, const char* one) {
  return text(number) + " " + one + (number == 1 ? "" : "s");
}

std::string limits(const Json& group) {
  if (group["version"].is_null()) return "none";
  const Json& quota = group["cpu_quota"];
  const Json& memory = group["memory_limit"];
  return fmt::format("version {}, {}, {} memory", text(group["version"]),
                     quota.is_null() ? "all cores" : counted(quota, "core"),
                     memory.is_null() ? "all" : bytes(memory));
}

std::string clock(const Json& hertz) {
  return hertz.is_number() ? fmt::format("{:.0f} MHz", 1e-6 * hertz.get<double>()) : text(hertz);
}

// Without NVML only the model and the bus address are known.
std::string gpu_text(const Json& gpu) {
  const auto at = [&](const char* field) { return gpu.value(field, Json()); };
  std::string out = fmt::format("{} at {}", text(at("model")), text(at("bus")));
  if (!gpu.contains("uuid")) return out;
  return out + fmt::format(
                   ", {}, {}; clocks to {} and {} (memory), application clock {}; MIG {}, persistence {}, "
                   "compute mode {}",
                   text(at("uuid")), bytes(at("memory")), clock(at("sm_clock_limit_hz")),
                   clock(at("memory_clock_limit_hz")), clock(at("sm_application_clock_hz")), text(at("mig")),
                   text(at("persistence")), text(at("compute_mode")));
}

Table machine(const Json& facts) {
  const Json& cpu = facts["cpu"];
  const Json& memory = facts["memory"];
  const BuildInfo& build = build_info();
  Table table{.title = "This machine", .columns = {{""}, {""}}, .rows = {}, .notes = {}};
  const auto add = [&](const char* what, std::string value) {
    table.rows.push_back({{what, Tone::quiet}, {std::move(value)}});
  };
  add("program", fmt::format("assay {} {}{}, {} {}", build.version, build.commit,
                             build.dirty ? " (changed)" : "", build.compiler, build.build_type));
  add("built with", build.flags.empty() ? "no flags" : std::string(build.flags));
  add("host", fmt::format("{}, {}, {}", text(facts["host"]), text(facts["os"]), text(facts["kernel"])));
  add("processor", fmt::format("{} ({})", text(cpu["model"]), text(cpu["vendor"])));
  add("cores", fmt::format("{} of {} logical allowed; {} in {}, {}", text(cpu["allowed"]),
                           text(cpu["logical"]), counted(cpu["cores"], "core"),
                           counted(cpu["sockets"], "socket"), counted(cpu["numa_nodes"], "NUMA node")));
  add("instructions", text(cpu["instruction_sets"]));
  add("caches", caches(cpu["caches"]));
  add("clock rate", fmt::format("governor {}, driver {}, boost {}", text(cpu["governor"]),
                                text(cpu["driver"]), text(cpu["boost"])));
  add("hyper-threading",
      fmt::format("{}, {} a core", text(cpu["smt"]), counted(cpu["threads_per_core"], "thread")));
  add("control group", limits(facts["control_group"]));
  add("address randomisation", text(facts["address_randomisation"]));
  add("scheduling", text(facts["scheduling"]));
  add("memory",
      fmt::format("{}, {} free; swap {}; transparent huge pages {}", bytes(memory["total"]),
                  bytes(memory["available"]), bytes(memory["swap_total"]), text(memory["huge_pages"])));
  add("clock", fmt::format("{} from {}, {} ns apart, {:.0f} ns a reading", text(facts["clock"]["name"]),
                           text(facts["clock"]["source"]), text(facts["clock"]["resolution_ns"]),
                           facts["clock"]["cost_ns"].get<double>()));
  add("load", text(facts["load_average"]));
  const Json& nvml = facts["nvml"];
  add("GPU driver", nvml.contains("reason")
                        ? text(nvml["reason"])
                        : fmt::format("{}, for CUDA up to {}", text(nvml["driver"]), text(nvml["cuda"])));
  for (const Json& gpu : facts["gpus"]) add("GPU", gpu_text(gpu));
  if (facts["gpus"].empty()) add("GPUs", "none");
  return table;
}

int env(bool json) {
  Json facts = environment();
  if (json) {
    const BuildInfo& build = build_info();
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
  for (const Json& cause : facts["unsteady"])
    causes.rows.push_back({{text(cause["what"]), Tone::doubtful}, {text(cause["remedy"])}});
  if (causes.rows.empty())
    causes = {.title = "No known cause of noise on this machine.", .columns = {}, .rows = {}, .notes = {}};
  print({machine(facts), causes});
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

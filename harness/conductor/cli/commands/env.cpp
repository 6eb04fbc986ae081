// assay env: the machine, and what on it makes numbers unsteady.
#include <memory>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/build_info.hpp"
#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/machine/environment.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay::cli {
namespace {

using Json = nlohmann::json;

// What the machine does not tell is "unknown".
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

std::string limits(const Json& group) {
  if (group["version"].is_null()) return "none";
  const Json& quota = group["cpu_quota"];
  const Json& memory = group["memory_limit"];
  return fmt::format("version {}, {} cores, {} memory", text(group["version"]),
                     quota.is_null() ? "all" : text(quota), memory.is_null() ? "all" : bytes(memory));
}

std::string clock(const Json& hertz) {
  return hertz.is_number() ? fmt::format("{:.0f} MHz", 1e-6 * hertz.get<double>()) : text(hertz);
}

// Without NVML its model and place are all that is known.
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

Table machine(const Json& told) {
  const Json& cpu = told["cpu"];
  const Json& memory = told["memory"];
  const BuildInfo& build = build_info();
  Table table{.title = "This machine", .columns = {{""}, {""}}, .rows = {}, .notes = {}};
  const auto add = [&](const char* what, std::string value) {
    table.rows.push_back({{what, Tone::quiet}, {std::move(value)}});
  };
  add("program", fmt::format("assay {} {}{}, {} {}", build.version, build.commit,
                             build.dirty ? " (changed)" : "", build.compiler, build.build_type));
  add("built with", build.flags.empty() ? "no flags" : std::string(build.flags));
  add("host", fmt::format("{}, {}, {}", text(told["host"]), text(told["os"]), text(told["kernel"])));
  add("processor", fmt::format("{} ({})", text(cpu["model"]), text(cpu["vendor"])));
  add("cores",
      fmt::format("{} of {} logical allowed; {} cores in {} sockets, {} NUMA nodes", text(cpu["allowed"]),
                  text(cpu["logical"]), text(cpu["cores"]), text(cpu["sockets"]), text(cpu["numa_nodes"])));
  add("instructions", text(cpu["instruction_sets"]));
  add("caches", caches(cpu["caches"]));
  add("clock rate", fmt::format("governor {}, driver {}, boost {}", text(cpu["governor"]),
                                text(cpu["driver"]), text(cpu["boost"])));
  add("hyper-threading",
      fmt::format("{}, {} threads a core", text(cpu["smt"]), text(cpu["threads_per_core"])));
  add("control group", limits(told["control_group"]));
  add("address randomisation", text(told["address_randomisation"]));
  add("memory",
      fmt::format("{}, {} free; swap {}; transparent huge pages {}", bytes(memory["total"]),
                  bytes(memory["available"]), bytes(memory["swap_total"]), text(memory["huge_pages"])));
  add("clock", fmt::format("{} from {}, {} ns apart, {:.0f} ns a reading", text(told["clock"]["name"]),
                           text(told["clock"]["source"]), text(told["clock"]["resolution_ns"]),
                           told["clock"]["cost_ns"].get<double>()));
  add("load", text(told["load_average"]));
  const Json& nvml = told["nvml"];
  add("GPU driver", nvml.contains("reason")
                        ? text(nvml["reason"])
                        : fmt::format("{}, for CUDA up to {}", text(nvml["driver"]), text(nvml["cuda"])));
  for (const Json& gpu : told["gpus"]) add("GPU", gpu_text(gpu));
  if (told["gpus"].empty()) add("GPUs", "none");
  return table;
}

int env(bool json) {
  Json told = environment();
  if (json) {
    const BuildInfo& build = build_info();
    told["program"] = {{"version", build.version},       {"commit", build.commit},
                       {"dirty", build.dirty},           {"compiler", build.compiler},
                       {"build_type", build.build_type}, {"flags", build.flags}};
    print_json(told);
    return fine;
  }
  Table causes{.title = "What makes numbers unsteady here",
               .columns = {{"seen"}, {"what helps"}},
               .rows = {},
               .notes = {}};
  for (const Json& cause : told["unsteady"])
    causes.rows.push_back({{text(cause["what"]), Tone::doubtful}, {text(cause["remedy"])}});
  if (causes.rows.empty())
    causes = {.title = "Nothing known makes numbers unsteady here.", .columns = {}, .rows = {}, .notes = {}};
  print({machine(told), causes});
  return fine;
}

int print_fingerprint() {
  const auto fingerprint = machine_fingerprint(environment());
  if (!fingerprint) {
    warn("this machine does not say which processor it has: it has no fingerprint");
    return own_failure;
  }
  print(*fingerprint + "\n");
  return fine;
}

}  // namespace

void add_env(CLI::App& app, Context& context) {
  auto json = std::make_shared<bool>(false);
  auto fingerprint = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("env", "The machine, libraries, clocks, and what makes numbers unsteady here");
  command->add_flag("--json", *json, "As JSON, for a program");
  command->add_flag("--fingerprint", *fingerprint,
                    "Only the key of this machine, by which baselines and calibrations are named");
  command->callback([json, fingerprint, &context] {
    context.action = [json, fingerprint] { return *fingerprint ? print_fingerprint() : env(*json); };
  });
}

}  // namespace assay::cli

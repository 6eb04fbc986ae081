#include "harness/conductor/config/runnable.hpp"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/config/launchers.hpp"
#include "harness/conductor/config/ranks.hpp"
#include "harness/conductor/data/initial_values.hpp"
#include "harness/core/text.hpp"
#include "harness/core/words.hpp"

namespace assay {
namespace {

const std::vector<std::string>& texts_of(const std::vector<std::string>& names) { return names; }

// The networks that generate tokens.
std::vector<std::string> generators(const WorkloadRegistry& workloads) {
  std::vector<std::string> names;
  for (const Workload& workload : workloads.networks())
    if (workload.decodes) names.push_back(workload.name);
  return names;
}

// A number in a file of samples, a config or an option may make a network that no machine holds.
void reject_larger_than_memory(Cell& cell, const std::optional<std::int64_t>& available) {
  const std::int64_t needed = least_memory(*cell.program, cell.axes.task);
  if (cell.axes.device != DeviceKind::cpu || !available || needed <= *available) return;
  end_with(cell, ReasonCode::not_enough_memory,
           fmt::format(
               "it takes at least {:.1f} GiB (parameters, their gradients and moments, and the largest other "
               "tensor), and {:.1f} GiB are available; use fewer classes, smaller samples or a smaller batch",
               static_cast<double>(needed) * 0x1p-30, static_cast<double>(*available) * 0x1p-30));
}

// The first reason in this order stays.
void reject_what_is_not_offered(Cell& cell, const WorkloadRegistry& workloads) {
  const BackendDescription& backend = *cell.backend;
  const Program& program = *cell.program;
  const auto need = [&](const char* axis, const auto& offered, const auto& wanted) {
    if (!cell.runnable() || backend.awaited || contains(offered, wanted)) return;
    end_with(cell, ReasonCode::axis_value_not_offered,
             fmt::format("[{0}] does not support {1} '{2}'; use --{1} {3}", backend.name, axis,
                         cell.axes.text(axis), fmt::join(texts_of(offered), ",")));
  };
  need("device", backend.devices, cell.axes.device);
  need("task", backend.tasks, cell.axes.task);
  need("precision", backend.precisions, cell.axes.precision);
  need("layout", backend.layouts, cell.axes.layout);
  need("loader", backend.loaders, cell.axes.loader);
  if (cell.runnable() && cell.axes.task == Task::decode && !program.decoding) {
    end_with(cell, ReasonCode::no_tokens,
             fmt::format("[{}] does not support task decode: it generates no tokens; use {}",
                         cell.axes.workload, fmt::join(generators(workloads), ", ")));
  }
  if (cell.runnable() && !backend.awaited && cell.axes.text("initial") == "own" && !backend.initial)
    end_with(cell, ReasonCode::axis_value_not_offered,
             fmt::format("[{}] does not support initial 'own': it has no layers with defaults; use --initial "
                         "keras, gluon or torch",
                         backend.name));
  if (const auto scheme = cell.initial_scheme()) scheme_initializers(program.inference, *scheme);
  if (const Refusal* rule = cell.runnable() ? cell.refusal() : nullptr) {
    end_with(cell, ReasonCode::refused_by_rule, fmt::format("[{}] {}", backend.name, rule->reason));
    cell.refused_for_mode = !rule->modes.empty();
    cell.refused_for_layout = !rule->layouts.empty();
  }
  if (cell.runnable() && cell.axes.optimizer == "lazy_adam" && cell.axes.task == Task::train &&
      !cell.network().sparse_embedding) {
    end_with(
        cell, ReasonCode::sparse_gradients_needed,
        "lazy_adam updates only the rows that a gradient touches, and dense gradients do not name them: use "
        "--embedding-gradient sparse, or adam, which is the same if every row is touched");
  }
  if (cell.runnable() && cell.axes.compile_cache == CacheState::warm && !backend.awaited &&
      !backend.has_compile_cache()) {
    end_with(cell, ReasonCode::no_compile_cache,
             fmt::format("[{}] does not support a warm compile cache: it keeps no compiled programs on disk",
                         backend.name));
  }
  if (cell.runnable() && !backend.awaited && cell.axes.flag("running-accuracy") &&
      !contains(backend.running_accuracy, cell.axes.mode)) {
    end_with(cell, ReasonCode::axis_value_not_offered,
             fmt::format("[{}] does not support --running-accuracy in mode {}: its loop counts no accuracy{}",
                         backend.name, cell.axes.mode,
                         backend.running_accuracy.empty()
                             ? std::string()
                             : fmt::format("; use --mode {}", fmt::join(backend.running_accuracy, ","))));
  }
  const int teams = backend.teams_of(cell.axes.mode);
  if (cell.runnable() && !backend.awaited && cell.compute_threads() < teams) {
    end_with(
        cell, ReasonCode::axis_value_not_offered,
        fmt::format("[{}] does not support mode {} with fewer than {} computing threads, one for each team "
                    "that it computes in; use --threads {} or more",
                    backend.name, cell.axes.mode, teams,
                    teams + cell.axes.loader_threads() + cell.axes.threads - cell.axes.all_threads()));
  }
  const bool limited = cell.axes.number("memory-fraction") > 0 || cell.axes.number("memory-cap") > 0;
  if (cell.runnable() && limited && !backend.awaited && !contains(backend.memory_limits, cell.axes.device)) {
    end_with(cell, ReasonCode::no_memory_limit,
             fmt::format("[{}] does not support --memory-fraction and --memory-cap on {}", backend.name,
                         to_string(cell.axes.device)));
  }
  if (std::string refusal = ranks_refusal(cell); cell.runnable() && !backend.awaited && !refusal.empty())
    end_with(cell, ReasonCode::ranks_not_supported, std::move(refusal));
  const std::optional<LauncherRefusal> launcher = launcher_refusal(cell);
  const bool missing = launcher && launcher->code == ReasonCode::launcher_missing;
  if (launcher && !missing && cell.runnable() && !backend.awaited)
    end_with(cell, launcher->code, launcher->reason);
  if (cell.runnable() && cell.measure.epochs > 0 && cell.axes.task != Task::train) {
    end_with(cell, ReasonCode::epochs_of_inference,
             "inference is measured in steps, not in epochs; use --steps or --blocks");
  }
  if (cell.runnable() && cell.measure.epochs > 0 && cell.axes.loader == LoaderKind::resident) {
    end_with(cell, ReasonCode::epochs_of_resident_batches,
             "the resident loader does not support epochs: it rotates a few batches; use --loader harness");
  }
  if (cell.runnable() && !backend.available()) {
    end_with(cell, ReasonCode::backend_unavailable,
             backend.remedy.empty() ? backend.unavailable
                                    : fmt::format("{}; {}", backend.unavailable, backend.remedy));
  }
  if (const auto lacks = backend.unavailable_on.find(cell.axes.device);
      cell.runnable() && lacks != backend.unavailable_on.end()) {
    end_with(cell, ReasonCode::backend_unavailable, fmt::format("[{}] {}", backend.name, lacks->second));
  }
  if (cell.runnable() && cell.axes.ranks() > 1 && !backend.unavailable_in_ranks.empty())
    end_with(cell, ReasonCode::backend_unavailable,
             fmt::format("[{}] {}", backend.name, backend.unavailable_in_ranks));
  if (missing && cell.runnable()) end_with(cell, launcher->code, launcher->reason);
  if (cell.runnable() && !backend.awaited) {
    if (std::string refusal = gpus_refusal(cell); !refusal.empty())
      end_with(cell, ReasonCode::backend_unavailable, std::move(refusal));
  }
}

}  // namespace

void mark_if_not_runnable(Cell& cell, const WorkloadRegistry& workloads,
                          std::optional<std::int64_t> available_memory) {
  reject_what_is_not_offered(cell, workloads);
  if (cell.runnable()) reject_larger_than_memory(cell, available_memory);
}

}  // namespace assay

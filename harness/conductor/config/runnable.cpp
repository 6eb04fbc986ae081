#include "harness/conductor/config/runnable.hpp"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/config/launchers.hpp"
#include "harness/conductor/config/ranks.hpp"
#include "harness/conductor/data/dataset.hpp"
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

struct Asked {
  const Cell& cell;
  const BackendDescription& backend;
  const WorkloadRegistry& workloads;
  std::optional<std::int64_t> available_memory;
};
struct Reason {
  ReasonCode code = ReasonCode::absent;
  std::string text;
  const Refusal* rule = nullptr;  // of backend.json, that the cell meets
};
using Found = std::optional<Reason>;

// That the backend does not have a value of one of these axes.
Found axis_not_offered(const Asked& asked) {
  const auto need = [&](const char* axis, const auto& offered, const auto& wanted) -> Found {
    if (contains(offered, wanted)) return std::nullopt;
    return Reason{ReasonCode::axis_value_not_offered,
                  fmt::format("[{0}] does not support {1} '{2}'; use --{1} {3}", asked.backend.name, axis,
                              asked.cell.axes.text(axis), fmt::join(texts_of(offered), ","))};
  };
  const Axes& axes = asked.cell.axes;
  Found found = need("device", asked.backend.devices, axes.device);
  if (!found) found = need("task", asked.backend.tasks, axes.task);
  if (!found) found = need("precision", asked.backend.precisions, axes.precision);
  if (!found) found = need("layout", asked.backend.layouts, axes.layout);
  if (!found) found = need("loader", asked.backend.loaders, axes.loader);
  return found;
}

Found generates_no_tokens(const Asked& asked) {
  if (asked.cell.axes.task != Task::decode || asked.cell.program->decoding) return std::nullopt;
  return Reason{ReasonCode::no_tokens,
                fmt::format("[{}] does not support task decode: it generates no tokens; use {}",
                            asked.cell.axes.workload, fmt::join(generators(asked.workloads), ", "))};
}

Found no_initial_values_of_its_own(const Asked& asked) {
  if (asked.cell.axes.text("initial") != "own" || asked.backend.initial) return std::nullopt;
  return Reason{
      ReasonCode::axis_value_not_offered,
      fmt::format("[{}] does not support initial 'own': it has no layers with defaults; use --initial "
                  "keras, gluon or torch",
                  asked.backend.name)};
}

Found refused_by_rule(const Asked& asked) {
  const Refusal* rule = asked.cell.refusal();
  if (!rule) return std::nullopt;
  return Reason{ReasonCode::refused_by_rule, fmt::format("[{}] {}", asked.backend.name, rule->reason), rule};
}

Found dense_gradients(const Asked& asked) {
  const Axes& axes = asked.cell.axes;
  if (axes.optimizer != "lazy_adam" || axes.task != Task::train || asked.cell.network().sparse_embedding)
    return std::nullopt;
  return Reason{
      ReasonCode::sparse_gradients_needed,
      "lazy_adam updates only the rows that a gradient touches, and dense gradients do not name them: use "
      "--embedding-gradient sparse, or adam, which is the same if every row is touched"};
}

Found no_compile_cache(const Asked& asked) {
  if (asked.cell.axes.compile_cache != CacheState::warm || asked.backend.has_compile_cache())
    return std::nullopt;
  return Reason{
      ReasonCode::no_compile_cache,
      fmt::format("[{}] does not support a warm compile cache: it keeps no compiled programs on disk",
                  asked.backend.name)};
}

Found no_running_accuracy(const Asked& asked) {
  const std::vector<std::string>& modes = asked.backend.running_accuracy;
  if (!asked.cell.axes.flag("running-accuracy") || contains(modes, asked.cell.axes.mode)) return std::nullopt;
  return Reason{
      ReasonCode::axis_value_not_offered,
      fmt::format("[{}] does not support --running-accuracy in mode {}: its loop counts no accuracy{}",
                  asked.backend.name, asked.cell.axes.mode,
                  modes.empty() ? std::string() : fmt::format("; use --mode {}", fmt::join(modes, ",")))};
}

Found too_few_threads(const Asked& asked) {
  const Axes& axes = asked.cell.axes;
  const int teams = asked.backend.teams_of(axes.mode);
  if (asked.cell.compute_threads() >= teams) return std::nullopt;
  return Reason{ReasonCode::axis_value_not_offered,
                fmt::format("[{}] does not support mode {} with fewer than {} computing threads, one for "
                            "each team that it computes in; use --threads {} or more",
                            asked.backend.name, axes.mode, teams,
                            teams + axes.loader_threads() + axes.threads - axes.all_threads())};
}

Found no_memory_limit(const Asked& asked) {
  const Axes& axes = asked.cell.axes;
  const bool limited = axes.number("memory-fraction") > 0 || axes.number("memory-cap") > 0;
  if (!limited || contains(asked.backend.memory_limits, axes.device)) return std::nullopt;
  return Reason{ReasonCode::no_memory_limit,
                fmt::format("[{}] does not support --memory-fraction and --memory-cap on {}",
                            asked.backend.name, to_string(axes.device))};
}

Found no_ranks(const Asked& asked) {
  std::string refusal = ranks_refusal(asked.cell);
  if (refusal.empty()) return std::nullopt;
  return Reason{ReasonCode::ranks_not_supported, std::move(refusal)};
}

Found launcher_reason(const Asked& asked, bool missing) {
  std::optional<LauncherRefusal> found = launcher_refusal(asked.cell);
  if (!found || (found->code == ReasonCode::launcher_missing) != missing) return std::nullopt;
  return Reason{found->code, std::move(found->reason)};
}
Found other_launcher(const Asked& asked) { return launcher_reason(asked, false); }
Found missing_launcher(const Asked& asked) { return launcher_reason(asked, true); }

Found epochs_of_inference(const Asked& asked) {
  if (asked.cell.measure.epochs == 0 || asked.cell.axes.task == Task::train) return std::nullopt;
  return Reason{ReasonCode::epochs_of_inference,
                "inference is measured in steps, not in epochs; use --steps or --blocks"};
}

Found epochs_of_resident_batches(const Asked& asked) {
  if (asked.cell.measure.epochs == 0 || asked.cell.axes.loader != LoaderKind::resident) return std::nullopt;
  return Reason{
      ReasonCode::epochs_of_resident_batches,
      "the resident loader does not support epochs: it rotates a few batches; use --loader harness"};
}

// The samples of a network with several inputs are drawn, as many as its resident batches have.
Found samples_are_drawn(const Asked& asked) {
  if (asked.cell.axes.is_op() || asked.cell.reads_dataset()) return std::nullopt;
  const bool resident = asked.cell.axes.loader == LoaderKind::resident;
  if (resident && find_dataset(asked.cell.axes.dataset).made_here()) return std::nullopt;
  return Reason{ReasonCode::axis_value_not_offered,
                fmt::format("{} has several inputs, whose samples are drawn: use --dataset synthetic and "
                            "--loader resident",
                            asked.cell.axes.workload)};
}

Found not_set_up(const Asked& asked) {
  const BackendDescription& backend = asked.backend;
  if (backend.available()) return std::nullopt;
  return Reason{ReasonCode::backend_unavailable,
                backend.remedy.empty() ? backend.unavailable
                                       : fmt::format("{}; {}", backend.unavailable, backend.remedy)};
}

Found not_set_up_for_device(const Asked& asked) {
  const auto lacks = asked.backend.unavailable_on.find(asked.cell.axes.device);
  if (lacks == asked.backend.unavailable_on.end()) return std::nullopt;
  return Reason{ReasonCode::backend_unavailable, fmt::format("[{}] {}", asked.backend.name, lacks->second)};
}

Found not_set_up_for_ranks(const Asked& asked) {
  const std::string& why = asked.backend.unavailable_in_ranks;
  if (asked.cell.axes.ranks() == 1 || why.empty()) return std::nullopt;
  return Reason{ReasonCode::backend_unavailable, fmt::format("[{}] {}", asked.backend.name, why)};
}

Found too_few_gpus(const Asked& asked) {
  std::string refusal = gpus_refusal(asked.cell);
  if (refusal.empty()) return std::nullopt;
  return Reason{ReasonCode::backend_unavailable, std::move(refusal)};
}

// A number in a file of samples, a config or an option may make a network that no machine holds.
Found larger_than_memory(const Asked& asked) {
  const auto& available = asked.available_memory;
  const std::int64_t needed = least_memory(*asked.cell.program, asked.cell.axes.task);
  if (asked.cell.axes.device != DeviceKind::cpu || !available || needed <= *available) return std::nullopt;
  return Reason{
      ReasonCode::not_enough_memory,
      fmt::format(
          "it takes at least {:.1f} GiB (parameters, their gradients and moments, and the largest other "
          "tensor), and {:.1f} GiB are available; use fewer classes, smaller samples or a smaller batch",
          static_cast<double>(needed) * 0x1p-30, static_cast<double>(*available) * 0x1p-30)};
}

struct ReasonRow {
  Found (*found)(const Asked& asked);
  bool needs_description = true;  // not asked of a backend that a config awaits, which nobody has described
};

// The first reason that holds is given: first what the backend does not offer, then what is missing here.
constexpr ReasonRow reasons_against[] = {
    {axis_not_offered},
    {generates_no_tokens, false},
    {no_initial_values_of_its_own},
    {refused_by_rule},
    {dense_gradients, false},
    {no_compile_cache},
    {no_running_accuracy},
    {too_few_threads},
    {no_memory_limit},
    {no_ranks},
    {other_launcher},
    {samples_are_drawn, false},
    {epochs_of_inference, false},
    {epochs_of_resident_batches, false},
    {not_set_up, false},
    {not_set_up_for_device, false},
    {not_set_up_for_ranks, false},
    {missing_launcher, false},
    {too_few_gpus},
    {larger_than_memory, false},
};

}  // namespace

void mark_if_not_runnable(Cell& cell, const WorkloadRegistry& workloads,
                          std::optional<std::int64_t> available_memory) {
  if (const auto scheme = cell.initial_scheme()) scheme_initializers(cell.program->inference, *scheme);
  const Asked asked{cell, *cell.backend, workloads, available_memory};
  for (const ReasonRow& row : reasons_against) {
    if (!cell.runnable()) return;
    if (row.needs_description && cell.backend->awaited) continue;
    Found found = row.found(asked);
    if (!found) continue;
    end_with(cell, found->code, std::move(found->text));
    cell.refused_for_mode = found->rule && !found->rule->modes.empty();
    cell.refused_for_layout = found->rule && !found->rule->layouts.empty();
  }
}

}  // namespace assay

#include "harness/conductor/fork/worker_plan.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/config/launchers.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/paths.hpp"
#include "harness/core/text.hpp"
#include "harness/launch/passed_variables.hpp"
#include "harness/machine/cores.hpp"
#include "harness/machine/environment.hpp"
#include "harness/machine/gpu_sampler.hpp"
#include "workloads/imported_network.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using protocol::Command;
using protocol::Verb;

using Variables = std::map<std::string, std::string>;

// The placeholders of a backend.json, as they are in a fork.
struct Kept {
  fs::path cache;    // ${cache}
  fs::path in_cell;  // ${kept}
};

// Adds the variables of a backend.json. Those of --environment take precedence, except for these folders.
void add_variables(Variables& environment, const Variables& variables, const Variables& named,
                   const Kept& kept) {
  for (auto [name, value] : variables) {
    bool is_own = false;
    for (const auto& [placeholder, folder] :
         {std::pair<std::string_view, const fs::path&>{"${cache}", kept.cache}, {"${kept}", kept.in_cell}}) {
      const std::size_t at = value.find(placeholder);
      if (at == std::string::npos) continue;
      value.replace(at, placeholder.size(), folder.string());
      is_own = true;
    }
    if (is_own || !named.contains(name)) environment[name] = value;
  }
}

fs::path warm_cache(const Cell& cell) { return cache_folder() / "warm" / file_name_of(cell); }

// Where the forks of a cell hand on what they chose, until the run ends; those that are timed get nothing of the others.
// Empty if the backend does not ask for it.
fs::path kept_in_run(const Cell& cell, const BackendDescription& backend, const ForkContext& context,
                     bool timed) {
  const auto asks = [](const auto& variable) { return variable.second.find("${kept}") != std::string::npos; };
  if (std::ranges::none_of(backend.environment, asks)) return {};
  return context.scratch / (timed ? "kept" : "kept-by-checks") / file_name_of(cell);
}

// glibc: no block is a mapping of its own, and the end of the heap is not returned.
void keep_freed_memory(Variables& environment) {
  environment["MALLOC_MMAP_MAX_"] = "0";
  environment["MALLOC_TRIM_THRESHOLD_"] = "4294967296";
}

// Where a rank keeps what only its machine needs, in the scratch folder of assay-rank.
WorkerFolders folders_on_machine(const WorkerFolders& folders, const RankPlace& place) {
  if (!place.is_launched()) return folders;
  return {folders.cell, place.scratch / "tmp"};
}

// Caches that frameworks keep on disk: private to a fork and empty, or shared by the forks of a cell if
// `warm` is requested. While a fork is timed, waiting OpenMP threads spin as the runtime has it by default
// (docs/measurements/thread-waiting.md has the cost of sleeping). In a check they sleep: nothing is timed,
// and spinning next to other work makes it many times slower. `named`: of --environment.
Variables worker_environment(const Cell& cell, const BackendDescription& backend, const fs::path& cache,
                             const fs::path& temporary, const fs::path& in_cell, const Variables& named,
                             bool timed) {
  const bool warm = cell.axes.compile_cache == CacheState::warm;
  Variables result = {
      {"XDG_CACHE_HOME", (cache / "xdg").string()},
      {"ASSAY_BATCH_LIBRARY", batch_library().string()},
      {"PYTHONUNBUFFERED", "1"},
      {"PYTHONNOUSERSITE", "1"},  // packages of the user would go before those of the environment
      {"TMPDIR", temporary.string()}};
  if (!contains(backend.own_threads, cell.axes.mode)) {
    const std::string count =
        std::to_string(std::max(1, cell.compute_threads() / backend.teams_of(cell.axes.mode)));
    for (const char* name :
         {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"})
      result[name] = count;
    result["OMP_DYNAMIC"] = "FALSE";
  }
  for (const auto& [name, value] : named) result[name] = value;
  add_variables(result, backend.environment, named, {cache, in_cell});
  if (warm) add_variables(result, backend.warm_environment, named, {cache, in_cell});
  if (cell.axes.text("allocator") == "keep") keep_freed_memory(result);
  if (!timed) result.try_emplace("OMP_WAIT_POLICY", "passive");
  // The order of NVML, so that the sampled GPU is the first GPU of the worker.
  if (cell.axes.device == DeviceKind::cuda) {
    if (!environment_variable("CUDA_DEVICE_ORDER")) result.try_emplace("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    // Where the driver keeps what it compiles for a GPU.
    result.try_emplace("CUDA_CACHE_PATH", (cache / "cuda").string());
  }
  return result;
}

// The variables that launchers of ranks set, such as torchrun.
void add_place(Variables& environment, const RankPlace& place) {
  if (place.world == 1) return;
  const std::size_t colon = place.rendezvous.rfind(':');
  const std::string rank = std::to_string(place.rank), world = std::to_string(place.world);
  environment["RANK"] = rank;
  environment["WORLD_SIZE"] = world;
  environment["LOCAL_RANK"] = std::to_string(place.local);
  environment["LOCAL_WORLD_SIZE"] = std::to_string(place.neighbours);
  environment["MASTER_ADDR"] = place.rendezvous.substr(0, colon);
  environment["MASTER_PORT"] = place.rendezvous.substr(colon + 1);
}

// Keeps the files that the worker is judged by, and those of later forks and other runs, out of its reach, except what
// the forks of its cell hand on.
Confinement confinement_of(const Cell& cell, const WorkerFolders& folders, const fs::path& in_cell,
                           const ForkContext& context) {
  const fs::path cache = cache_folder();
  Confinement confinement{.unreadable = {context.scratch, cache / "oracle"},
                          .unwritable = {context.scratch, cache},
                          .own = {folders.cell, folders.temporary, warm_cache(cell)}};
  if (!in_cell.empty()) confinement.own.push_back(in_cell);
  confinement.unwritable.insert(confinement.unwritable.end(), context.read_only.begin(),
                                context.read_only.end());
  return confinement;
}

// The value of a variable in the worker: its own, or the conductor's if that reaches it.
std::optional<std::string> worker_variable(const WorkerStart& worker, const char* name) {
  if (const auto set = worker.environment.find(name); set != worker.environment.end()) return set->second;
  return reaches_worker(name) ? environment_variable(name) : std::nullopt;
}

// The variables of this process that affect speed.
Variables variables_of_caller() {
  Variables found = environment_variables();
  std::erase_if(found, [](const auto& one) { return !affects_speed(one.first); });
  return found;
}

}  // namespace

namespace {

// Threads and processes of a framework share memory in /dev/shm, and everything writes to /dev/null.
bool is_needed(const fs::path& folder) { return folder == "/" || *std::next(folder.begin()) == "dev"; }

// Folders in which every program may need to make files.
bool is_everybodys(const fs::path& folder) {
  std::error_code error;
  return is_needed(folder) || folder == "/tmp" || folder == "/var/tmp" ||
         folder == fs::weakly_canonical(temporary_folder(), error) ||
         folder == fs::weakly_canonical(environment_text("HOME"), error);
}

// What the user gave: the data sets, weights and imported networks, with their folders.
std::vector<fs::path> given_paths(const RunSettings& settings, const std::vector<Cell>& cells) {
  std::vector<fs::path> paths = settings.data;
  if (!settings.weights.empty()) {
    paths.push_back(settings.weights);
    paths.push_back(fs::absolute(settings.weights).parent_path());
  }
  for (const Cell& cell : cells)
    if (!cell.axes.is_op() && cell.network().workload != nullptr && cell.network().workload->imported)
      paths.push_back(cell.network().workload->imported->folder);
  std::vector<fs::path> found;
  for (const fs::path& path : paths) {
    std::error_code error;
    fs::path real = fs::weakly_canonical(fs::absolute(path), error);
    if (!error && !real.empty() && !is_everybodys(real)) found.push_back(std::move(real));
  }
  return found;
}

}  // namespace

std::vector<fs::path> protected_paths(const fs::path& report, const BackendRegistry& registry,
                                      const RunSettings& settings, const std::vector<Cell>& cells) {
  std::vector<fs::path> paths = backend_folders();
  std::ranges::move(given_paths(settings, cells), std::back_inserter(paths));
  for (const BackendDescription& backend : registry.backends) {
    if (backend.awaited) continue;
    paths.push_back(backend.folder);
    if (const auto environment = environment_of(backend.framework); environment && !backend.framework.empty())
      paths.push_back(*environment);
  }
  paths.push_back(environment_maker().parent_path());
  std::error_code error;
  if (report.empty() || (fs::exists(report, error) && !fs::is_regular_file(report, error))) return paths;
  const fs::path target = fs::weakly_canonical(fs::absolute(link_target(report), error), error);
  const fs::path folder = target.parent_path();
  if (error || folder.empty()) return paths;
  paths.push_back(is_needed(folder) ? target : folder);
  return paths;
}

Variables session_variables(const RunSettings& settings) {
  Variables reaching = settings.environment;
  for (auto& [name, value] : variables_of_caller())
    if (reaches_launcher(name)) reaching.try_emplace(name, value);
  return reaching;
}

std::vector<std::string> dropped_variables(const RunSettings& settings) {
  std::vector<std::string> dropped;
  for (const auto& [name, value] : variables_of_caller())
    if (!reaches_launcher(name) && !settings.environment.contains(name)) dropped.push_back(name);
  return dropped;
}

Variables own_variables(const WorkerStart& worker, const RunSettings& settings) {
  const Variables shared = session_variables(settings);
  Variables own;
  for (const auto& [name, value] : worker.environment) {
    const auto found = shared.find(name);
    if (found == shared.end() ? affects_speed(name) : found->second != value) own.emplace(name, value);
  }
  return own;
}

std::string why_code_is_not_loaded(const Cell& cell, bool (*may_execute)(const fs::path& folder)) {
  const bool keeps_code = contains(cell.backend->compiles, cell.axes.mode) &&
                          std::ranges::any_of(cell.backend->environment, [](const auto& one) {
                            return one.second.find("${cache}") != std::string::npos;
                          });
  if (!keeps_code) return {};
  const bool warm = cell.axes.compile_cache == CacheState::warm;
  const fs::path folder = warm ? cache_folder() : assay::temporary_folder();
  const std::string path = folder.string(), variable = warm ? "ASSAY_CACHE" : "TMPDIR";
  if (shell_word(path) != path)
    return fmt::format(
        "the path '{}' has blanks or other characters that {}'s compiler command does not quote in mode {}; set {} to a "
        "folder without them",
        path, cell.backend->name, cell.axes.mode, variable);
  if (may_execute(folder)) return {};
  return fmt::format(
      "{} is mounted without exec, and {} loads the libraries that mode {} compiles from there; set {} to a folder from "
      "which programs may run",
      path, cell.backend->name, cell.axes.mode, variable);
}

std::string wait_policy(const WorkerStart& worker) {
  std::string policy;
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) {
    const std::string value = worker_variable(worker, name).value_or("");
    if (!value.empty()) policy += fmt::format("{}{}={}", policy.empty() ? "" : " ", name, value);
  }
  return policy.empty() ? "the runtime's own" : policy;
}

namespace {

std::vector<std::string> rank_command(const Cell& cell, const std::string& conductor) {
  return {rank_program().string(), conductor, own_host(), assay::temporary_folder().string(),
          rank_variables(cell.launcher)};
}

}  // namespace

std::optional<LaunchPlan> launch_plan(const Cell& cell, const WorkerFolders& folders) {
  if (cell.axes.ranks() == 1 || cell.launcher == Launcher::fork) return std::nullopt;
  const std::optional<fs::path> program = find_launcher(cell.launcher, *cell.backend);
  if (!program) throw Error(launcher_refusal(cell).value().reason);
  LaunchPlan plan;
  plan.name = to_string(cell.launcher);
  plan.world = cell.axes.ranks();
  plan.folder = folders.cell;
  plan.cores = usable_cores();
  plan.command = [cell, program = *program](const std::string& conductor) {
    return launcher_command(cell, program, rank_command(cell, conductor));
  };
  plan.environment = launcher_environment(cell.launcher);
  plan.environment["TMPDIR"] = folders.temporary.string();  // where the ranks may write, too
  return plan;
}

ConversationPlan plan_for(const Cell& cell, const BackendDescription& backend, const WorkerFolders& folders,
                          std::vector<Command> commands, const ForkContext& context, const RankPlace& place) {
  ConversationPlan plan;
  plan.backend = backend.name;
  plan.commands = std::move(commands);
  plan.phase_seconds = context.settings.time_limit;
  plan.deadline = context.deadline;
  plan.worker.command = backend.command;
  plan.worker.cell_folder = folders.cell;
  plan.worker.cores = place.is_launched() ? worker_cores_of(place.cores, cell.axes.all_threads(), place.lane)
                                          : worker_cores(cell.axes.all_threads(), context.lane + place.rank);
  const bool timed = std::any_of(plan.commands.begin(), plan.commands.end(),
                                 [](const Command& command) { return command.verb == Verb::run; });
  // The oracle, and a backend that replays a run, are not measured.
  const bool is_oracle =
      std::ranges::any_of(plan.commands, [](const Command& command) { return command.verb == Verb::oracle; });
  const Variables named = is_oracle || &backend != cell.backend ? Variables() : context.settings.environment;
  fs::path in_cell = kept_in_run(cell, backend, context, timed);
  if (!in_cell.empty() && place.is_apart) in_cell = place.scratch / "kept";
  const WorkerFolders local = folders_on_machine(folders, place);
  const bool warm = cell.axes.compile_cache == CacheState::warm;
  const fs::path own_cache = place.is_launched() ? place.scratch / "cache" : folders.cell / "cache";
  const fs::path cache = warm ? warm_cache(cell) : own_cache;
  plan.worker.folders = {cache, local.temporary};
  if (!in_cell.empty()) plan.worker.folders.push_back(in_cell);
  plan.worker.environment = worker_environment(cell, backend, cache, local.temporary, in_cell, named, timed);
  if (is_oracle) keep_freed_memory(plan.worker.environment);  // it makes and frees the tensors of many runs
  add_place(plan.worker.environment, place);
  // assay-rank chooses that of a rank on its machine.
  if (place.world > 1 && cell.axes.device == DeviceKind::cuda && !place.is_launched())
    plan.worker.environment["CUDA_VISIBLE_DEVICES"] = gpu_of_worker(place.rank, false);
  if (place.world > 1) plan.worker.environment.merge(launched_environment(cell.launcher));
  plan.worker.confinement = confinement_of(cell, folders, in_cell, context);
  // The oracle computes on the processor, even for a cell on a GPU.
  if (cell.axes.device == DeviceKind::cuda && &backend == cell.backend)
    plan.cuda = CudaVisibility{worker_variable(plan.worker, "CUDA_VISIBLE_DEVICES"),
                               worker_variable(plan.worker, "CUDA_DEVICE_ORDER")};
  return plan;
}

}  // namespace assay

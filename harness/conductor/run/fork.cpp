#include "harness/conductor/run/fork.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/run/cell_folder.hpp"
#include "harness/conductor/run/quality.hpp"
#include "harness/core/clock.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/paths.hpp"
#include "harness/machine/cores.hpp"
#include "harness/machine/environment.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using protocol::Command;
using protocol::Verb;

using Clock = std::chrono::steady_clock;

std::string flat(std::string id) {
  std::replace_if(id.begin(), id.end(), [](char c) { return c == '/' || c == ':' || c == ' '; }, '_');
  return id;
}

// Those of a backend.json. What the caller's environment sets takes precedence, but for places of caches.
void add_variables(std::map<std::string, std::string>& environment,
                   const std::map<std::string, std::string>& variables, const fs::path& cache) {
  constexpr std::string_view placeholder = "${cache}";
  for (auto [name, value] : variables) {
    const std::size_t at = value.find(placeholder);
    if (at == std::string::npos && environment_variable(name.c_str())) continue;
    if (at != std::string::npos) value.replace(at, placeholder.size(), cache.string());
    environment[name] = value;
  }
}

// Caches that frameworks keep on disk: private to a fork and empty, or shared by the forks of a cell when
// `warm` is asked for. Threads of OpenMP that wait spin while a fork is timed, as the runtime has it:
// docs/data-and-clock.md has what sleeping costs. Nothing is timed in a check, and beside other work spinning
// makes it many times slower. What the caller's environment says goes before.
std::map<std::string, std::string> worker_environment(const Cell& cell, const BackendDescription& backend,
                                                      const fs::path& folder, bool timed) {
  const bool warm = cell.axes.compile_cache == CacheState::warm;
  const fs::path cache = warm ? cache_folder() / "warm" / flat(cell.id) : folder / "cache";
  std::error_code ignored;
  fs::create_directories(cache, ignored);
  const std::string count = std::to_string(cell.compute_threads());
  std::map<std::string, std::string> result = {{"OMP_NUM_THREADS", count},
                                               {"MKL_NUM_THREADS", count},
                                               {"OPENBLAS_NUM_THREADS", count},
                                               {"NUMEXPR_NUM_THREADS", count},
                                               {"OMP_DYNAMIC", "FALSE"},
                                               {"XDG_CACHE_HOME", (cache / "xdg").string()},
                                               {"ASSAY_BATCH_LIBRARY", batch_library().string()},
                                               {"PYTHONUNBUFFERED", "1"}};
  add_variables(result, backend.environment, cache);
  if (warm) add_variables(result, backend.warm_environment, cache);
  if (!timed && !environment_variable("OMP_WAIT_POLICY")) result["OMP_WAIT_POLICY"] = "passive";
  // As NVML counts GPUs, so that the one that is sampled is the one that the worker calls its first.
  if (cell.axes.device == DeviceKind::cuda && !environment_variable("CUDA_DEVICE_ORDER"))
    result["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  return result;
}

// What a variable is in the worker: its own, or the conductor's.
std::optional<std::string> worker_variable(const WorkerStart& worker, const char* name) {
  if (const auto set = worker.environment.find(name); set != worker.environment.end()) return set->second;
  return environment_variable(name);
}

// The variables that affect speed and that the worker has otherwise than this process.
std::map<std::string, std::string> own_variables(const WorkerStart& worker) {
  std::map<std::string, std::string> own;
  for (const auto& [name, value] : worker.environment) {
    if (affects_speed(name) && environment_variable(name.c_str()) != value) own.emplace(name, value);
  }
  return own;
}

// How the OpenMP runtimes of a worker were told to wait.
std::string wait_policy(const WorkerStart& worker) {
  std::string told;
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) {
    const std::string value = worker_variable(worker, name).value_or("");
    if (!value.empty()) told += fmt::format("{}{}={}", told.empty() ? "" : " ", name, value);
  }
  return told.empty() ? "the runtime's own" : told;
}

ConversationPlan plan_for(const Cell& cell, const BackendDescription& backend, const fs::path& folder,
                          std::vector<Command> commands, const ForkContext& context) {
  ConversationPlan plan;
  plan.backend = backend.name;
  plan.commands = std::move(commands);
  plan.phase_seconds = context.settings.time_limit;
  plan.deadline = context.deadline;
  plan.worker.command = backend.command;
  plan.worker.cell_folder = folder;
  plan.worker.cores = worker_cores(cell.axes.threads, context.lane);
  const bool timed = std::any_of(plan.commands.begin(), plan.commands.end(),
                                 [](const Command& command) { return command.verb == Verb::run; });
  plan.worker.environment = worker_environment(cell, backend, folder, timed);
  // The oracle computes on the processor, whatever its cell runs on.
  if (cell.axes.device == DeviceKind::cuda && &backend == cell.backend)
    plan.cuda = CudaVisibility{worker_variable(plan.worker, "CUDA_VISIBLE_DEVICES"),
                               worker_variable(plan.worker, "CUDA_DEVICE_ORDER")};
  return plan;
}

struct OracleAnswers {
  fs::path file;
  bool cached = true;  // they were made in an earlier run
};

// The oracle answers in a conversation of its own; its failure is not the cell's, and says so.
OracleAnswers oracle_answers(const Cell& cell, const Program& program, const fs::path& folder,
                             const fs::path& scratch, const BackendDescription& oracle,
                             const ForkContext& context) {
  OracleWorker worker;
  worker.backend = oracle.name;
  worker.mode = oracle.modes.front();
  worker.executable = oracle.command.front();
  worker.threads = cell.axes.threads;
  OracleAnswers answers;
  const std::lock_guard lock(*context.oracle);
  const auto run = [&](const fs::path& oracle_folder) {
    answers.cached = false;
    Cell own = cell;
    own.axes.loader_workers = 0;
    const ConversationPlan plan = plan_for(own, oracle, oracle_folder, {Command{Verb::oracle}}, context);
    const ConversationResult result = converse(plan, context.watch);
    if (result.status == Status::interrupted) throw Error(result.reason);
    if (!result.ok()) {
      throw Error(fmt::format("the oracle '{}' gave no answers: {}", oracle.name, result.reason));
    }
  };
  answers.file = OracleCache().answers(folder, program, worker, scratch, run);
  return answers;
}

Equivalence compare_with_oracle(const Cell& cell, const Program& program, const fs::path& folder,
                                std::string_view phase, const ForkContext& context) {
  const BackendDescription* oracle = context.registry.oracle();
  if (!oracle)
    return {false, false, 0, "no oracle is available: build the backend that says \"oracle\": true", {}};
  try {
    const Scratch scratch(context.scratch / ("oracle-" + flat(cell.id)), context.keep_folders);
    const OracleAnswers answers =
        oracle_answers(cell, program, folder, scratch.path() / "cell", *oracle, context);
    Equivalence equivalence = judge(folder, answers.file, phase, program);
    equivalence.settings = CheckSettings{.seed = context.settings.seed,
                                         .distinct = read_check_batch(folder).distinct,
                                         .perturbations = perturbations,
                                         .version = check_version,
                                         .oracle_cached = answers.cached};
    return equivalence;
  } catch (const std::runtime_error& error) {
    return {false, false, 0, error.what(), {}};
  }
}

bool interrupted(const ForkContext& context) {
  return context.watch.interrupts && context.watch.interrupts->signal() != 0;
}

void take_over(Fork& fork, ConversationResult& result) {
  fork.status = result.status;
  fork.reason = result.reason;
  if (!result.ok()) fork.log_tail = result.log_tail;
  fork.samples = std::move(result.samples);
  fork.gpu = std::move(result.gpu);
  fork.host_peak_rss = result.peak_rss;
  if (result.hello) fork.settings.insert(result.hello->settings.begin(), result.hello->settings.end());
  if (result.compiled) {
    fork.compile_seconds = result.compiled->seconds;
    fork.memory = result.compiled->memory;
    for (const auto& [name, value] : result.compiled->settings) fork.settings[name] = value;
  }
  if (!result.ran) return;
  fork.parameters_digest = result.ran->state_digest;
  for (const auto& [name, value] : result.ran->memory) fork.memory[name] = value;
  for (const auto& [name, value] : result.ran->settings) fork.settings[name] = value;
  for (const auto& time : result.ran->operators) {
    fork.operators.push_back(
        {{"node", time.node}, {"op", time.op}, {"seconds", time.seconds}, {"calls", time.calls}});
    if (!time.implementation.empty()) fork.operators.back()["implementation"] = time.implementation;
  }
}

// Files that we could not make or read are our failure or the machine's, and so is a bug of ours: the row
// reports it and the run goes on.
template <typename F>
void guarded(Fork& fork, F body) {
  try {
    body();
  } catch (const DatasetMissing& error) {
    fork.status = Status::unavailable;
    fork.reason = error.what();
  } catch (const std::runtime_error& error) {
    fork.status = Status::failed;
    fork.reason = error.what();
  } catch (const std::exception& error) {
    fork.status = Status::failed;
    fork.reason = internal_error(error);
  }
}

// What computes with numbers that are none may be fast for that reason.
void refuse_divergence(Fork& fork) {
  for (const Block& block : fork.blocks) {
    if (!block.loss || std::isfinite(*block.loss)) continue;
    fork.status = Status::failed;
    fork.reason = block.epoch > 0 ? fmt::format("the loss is not finite at the end of epoch {}", block.epoch)
                                  : "the loss is not finite at the end of a block";
    return;
  }
}

// The time of the worker's answers, without the conductor's own work.
TimeSpent spent_on(const ConversationResult& result) {
  TimeSpent spent;
  spent.start = result.start_seconds;
  spent.quit = result.quit_seconds;
  for (const auto& [verb, seconds] : result.command_seconds) {
    if (verb == Verb::compile || verb == Verb::restart) spent.compile += seconds;
    if (verb == Verb::run) spent.run += seconds;
    if (verb == Verb::check || verb == Verb::verify) spent.check += seconds;
  }
  return spent;
}

// A cold start, the framework's own loader and a profile belong to one fork.
bool may_stay(const Cell& cell) {
  return cell.measure.epochs == 0 && cell.axes.loader != LoaderKind::native && !cell.profile;
}

// What an earlier fork left in the folder of a resident worker; its log is open, and its caches are in use.
void remove_earlier(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != "log" && entry.path().filename() != "cache") fs::remove_all(entry.path());
}

}  // namespace

Scratch::Scratch(fs::path path, bool keep) : path_(std::move(path)), keep_(keep) {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  fs::create_directories(path_);
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!keep_) fs::remove_all(path_, ignored);
}

std::string check_subject(const Cell& cell, const Program& program) {
  nlohmann::json request = request_json(cell, 0);
  // How steps are timed and fed.
  for (const char* key : {"clock", "loader"}) request.erase(key);
  Sha256 sum;
  sum.add(cell.axes.backend);
  sum.add(request.dump());
  sum.add(to_json(program).dump());
  return sum.finish();
}

CheckOutcome check_cell(const Cell& cell, const Program& program, const ForkContext& context) {
  CheckOutcome outcome;
  Fork fork;
  guarded(fork, [&] {
    const Scratch scratch(context.scratch / ("check-" + flat(cell.id)), context.keep_folders);
    const std::uint64_t seed = context.settings.seed;
    const Clock::time_point begin = Clock::now();
    write_cell_folder(scratch.path(), cell, program, FolderPurpose::check, seed, seed, context.data);
    const double folder_seconds = seconds_since(begin);
    ConversationResult result =
        converse(plan_for(cell, *cell.backend, scratch.path(),
                          {Command{Verb::compile, true}, Command{Verb::check}}, context),
                 context.watch);
    outcome.hello = result.hello;
    outcome.spent = spent_on(result);
    outcome.spent.folder = folder_seconds;
    take_over(fork, result);
    if (!result.ok()) return;
    const Clock::time_point judging = Clock::now();
    outcome.equivalence = compare_with_oracle(cell, program, scratch.path(), "check", context);
    outcome.spent.judge = seconds_since(judging);
    if (interrupted(context)) {
      fork.status = Status::interrupted;
      fork.reason = "interrupted during the check";
    } else if (outcome.equivalence.checked && !outcome.equivalence.passed) {
      fork.status = Status::wrong_result;
      fork.reason = outcome.equivalence.reason;
    }
  });
  outcome.status = fork.status;
  outcome.reason = fork.reason;
  outcome.log_tail = fork.log_tail;
  return outcome;
}

TimedOutcome time_cell(const Cell& cell, int round, bool verify, const ForkContext& context,
                       std::optional<ResidentWorker>* resident) {
  TimedOutcome outcome;
  Fork& fork = outcome.fork;
  fork.round = round;
  fork.seed = context.settings.seed + static_cast<std::uint64_t>(round);
  fork.resident = resident && resident->has_value();
  guarded(fork, [&] {
    const Program program = cell.program();
    const bool stays = resident && context.settings.fork_style == ForkStyle::resident && may_stay(cell);
    // In the caller's hands only after all went well.
    std::optional<ResidentWorker> used = resident ? std::exchange(*resident, std::nullopt) : std::nullopt;
    std::unique_ptr<Scratch> own;
    if (used)
      remove_earlier(used->folder->path());
    else
      own = std::make_unique<Scratch>(context.scratch / flat(cell.id), context.keep_folders);
    const fs::path folder = used ? used->folder->path() : own->path();
    const Clock::time_point begin = Clock::now();
    write_cell_folder(folder, cell, program, FolderPurpose::run, fork.seed, context.settings.seed,
                      context.data);
    const double folder_seconds = seconds_since(begin);
    std::vector<Command> commands = {Command{used ? Verb::restart : Verb::compile}, Command{Verb::run}};
    if (verify) commands.push_back(Command{Verb::verify});
    const ConversationPlan plan = plan_for(cell, *cell.backend, folder, commands, context);
    if (!used) used = ResidentWorker{std::move(own), Worker(plan, context.watch)};
    ConversationResult result =
        used->worker.converse(commands, stays ? Afterwards::stop : Afterwards::quit, plan.deadline);
    fork.spent = spent_on(result);
    fork.spent->folder = folder_seconds;
    outcome.hello = result.hello;
    take_over(fork, result);
    fork.settings["affinity"] = plan.worker.cores.empty() ? "inherited" : cores_text(plan.worker.cores);
    fork.settings["wait_policy"] = wait_policy(plan.worker);
    fork.variables = own_variables(plan.worker);
    if (!result.ok()) return;
    read_clock(folder / "results/clock.json", cell.has_loss(), fork);
    add_quality_flags(fork, cell);
    add_warnings(fork);
    refuse_divergence(fork);
    if (fork.status != Status::ok) return;
    if (verify) {
      const Clock::time_point judging = Clock::now();
      outcome.verified = compare_with_oracle(cell, program, folder, "verify", context);
      fork.spent->judge = seconds_since(judging);
    }
    if (outcome.verified.checked && !outcome.verified.passed) {
      fork.status = Status::wrong_result;
      fork.reason = outcome.verified.reason;
    } else if (stays) {
      *resident = std::move(used);
    }
  });
  return outcome;
}

Equivalence merged(const Equivalence& a, const Equivalence& b) {
  if (!a.checked) return a.tensors.empty() && b.checked ? b : a;
  if (!b.checked) {
    Equivalence result = a;
    result.passed = false;
    if (result.reason.empty()) result.reason = b.reason;
    return result;
  }
  Equivalence result = a;
  result.passed = a.passed && b.passed;
  if (a.passed) result.reason = b.reason;
  for (const TensorVerdict& tensor : b.tensors) {
    const auto same = std::find_if(result.tensors.begin(), result.tensors.end(),
                                   [&](const auto& t) { return t.name == tensor.name; });
    if (same == result.tensors.end()) {
      result.tensors.push_back(tensor);
    } else if (tensor.ratio > same->ratio) {
      *same = tensor;
    }
  }
  result.worst = std::max(a.worst, b.worst);
  return result;
}

}  // namespace assay

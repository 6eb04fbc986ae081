#include "harness/conductor/run/fork.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/exam.hpp"
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

// The oracle answers in a conversation of its own; its failure is not the cell's, and says so.
void ask_oracle(const Cell& cell, const BackendDescription& oracle, const fs::path& folder,
                const ForkContext& context) {
  Cell own = cell;
  own.axes.loader_workers = 0;
  const ConversationPlan plan = plan_for(own, oracle, folder, {Command{Verb::oracle}}, context);
  const ConversationResult result = converse(plan, context.watch);
  if (result.status == Status::interrupted) throw Error(result.reason);
  if (!result.ok())
    throw Error(fmt::format("the oracle '{}' gave no answers: {}", oracle.name, result.reason));
}

ExamPlan exam_plan(const Cell& cell, std::uint64_t seed) {
  const bool resident = cell.axes.loader == LoaderKind::resident && cell.measure.epochs == 0;
  return {.seed = seed,
          .distinct = cell.distinct,
          .resident = resident || cell.axes.is_op() ? cell.measure.resident_batches : 0,
          .task = cell.axes.task,
          .precision = cell.axes.precision};
}

constexpr int most_draws = 4;

// Draws exams until one is sharp. What makes one blunt is an element of a ReLU within rounding of zero, which rarely
// happens in fp32 and always where storage is narrower.
SetExam draw_exam(const Cell& cell, const Program& program, std::uint64_t seed, const fs::path& folder,
                  const ForkContext& context) {
  const BackendDescription* oracle = context.registry.oracle();
  if (!oracle) throw Error("no oracle is available: build the backend that says \"oracle\": true");
  const bool again = cell.axes.precision == PrecisionKind::fp32;
  std::optional<SetExam> sharpest;
  for (int draw = 0; draw < (again ? most_draws : 1); ++draw) {
    // Far from the seeds of other rounds.
    const ExamPlan plan = exam_plan(cell, seed + static_cast<std::uint64_t>(draw) * 1'000'003);
    const fs::path place = folder / std::to_string(draw);
    write_exam(place / "check", program, plan);
    const OracleWorker worker{oracle->name, oracle->modes.front(), oracle->command.front(),
                              cell.axes.threads};
    const OracleQuestion question{place / "check", plan.task, plan.precision, perturbations};
    const Clock::time_point begin = Clock::now();
    const OracleCache::Answers answers =
        OracleCache().answers(question, program, worker, place / "oracle",
                              [&](const fs::path& at) { ask_oracle(cell, *oracle, at, context); });
    SetExam set{.exam = {question.exam, answers.file, plan.task, plan.precision},
                .settings = {.seed = plan.seed,
                             .distinct = read_exam_batches(question.exam / "batches.json").distinct,
                             .perturbations = perturbations,
                             .version = check_version,
                             .oracle_cached = answers.cached},
                .seconds = seconds_since(begin)};
    const Looseness found = looseness(set.exam, program);
    set.settings.loosest = found.bound;
    set.settings.loosest_gradient = found.parameter;
    if (!sharpest || found.bound < sharpest->settings.loosest) sharpest = std::move(set);
    if (sharpest->settings.loosest <= loose_bound) break;
  }
  return std::move(*sharpest);
}

// Throws Error when the oracle does not answer.
const SetExam& exam_of(const Cell& cell, const Program& program, std::uint64_t seed,
                       const ForkContext& context) {
  const ExamPlan plan = exam_plan(cell, seed);
  const std::string key =
      sha256(fmt::format("{} {} {} {} {} {}", plan.seed, plan.distinct, plan.resident, to_string(plan.task),
                         to_string(plan.precision), to_json(program).dump()));
  const std::lock_guard lock(context.exams->mutex);
  const auto found = context.exams->sets.find(key);
  if (found != context.exams->sets.end()) return found->second;
  const fs::path folder = context.scratch / fmt::format("exam-{}", context.exams->sets.size());
  return context.exams->sets.emplace(key, draw_exam(cell, program, seed, folder, context)).first->second;
}

// The exam of a fork; nothing where none is asked for or the oracle does not answer, which `unchecked` then says.
const SetExam* exam_for(const Cell& cell, const Program& program, std::uint64_t seed,
                        const ForkContext& context, Equivalence& unchecked) {
  if (!cell.check) return nullptr;
  try {
    return &exam_of(cell, program, seed, context);
  } catch (const std::runtime_error& error) {
    unchecked = {false, false, 0, error.what(), {}};
    return nullptr;
  }
}

Equivalence judged(const SetExam& set, const Program& program, const fs::path& folder) {
  try {
    Equivalence equivalence = judge(set.exam, program, folder / "results/verify.safetensors");
    equivalence.settings = set.settings;
    return equivalence;
  } catch (const std::runtime_error& error) {
    return {false, false, 0, error.what(), {}};
  }
}

// By name, the digests of what the worker was given: it has no business changing them.
std::map<std::string, std::string> given_files(const fs::path& folder) {
  std::map<std::string, std::string> digests;
  for (const char* place : {"request.json", "graph.json", "parameters.safetensors", "schedule.npy",
                            "data/manifest.json", "check"}) {
    const fs::path path = folder / place;
    if (fs::is_regular_file(path)) digests[place] = sha256_of_file(path);
    if (!fs::is_directory(path)) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(path))
      digests[fmt::format("{}/{}", place, entry.path().filename().string())] = sha256_of_file(entry.path());
  }
  return digests;
}

// In words, what the worker changed; empty: nothing.
std::string changed_files(const std::map<std::string, std::string>& given, const fs::path& folder) {
  const std::map<std::string, std::string> now = given_files(folder);
  for (const auto& [name, digest] : given) {
    const auto found = now.find(name);
    if (found == now.end() || found->second != digest)
      return fmt::format("the worker changed {}, which the conductor gave it", name);
  }
  return {};
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
    if (verb == Verb::verify) spent.check += seconds;
  }
  return spent;
}

// What the exam and its files say of a fork.
void settle_exam(Fork& fork, const Equivalence& equivalence, const std::string& changed) {
  const bool wrong = equivalence.checked && !equivalence.passed;
  if (!wrong && changed.empty()) return;
  fork.status = wrong ? Status::wrong_result : Status::failed;
  fork.reason = wrong ? equivalence.reason : changed;
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

bool is_checked_before(const Cell& cell) { return cell.measure.epochs > 0; }

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
    const std::uint64_t seed = context.settings.seed;
    const SetExam* set = exam_for(cell, program, seed, context, outcome.equivalence);
    if (interrupted(context)) {
      fork.status = Status::interrupted;
      fork.reason = "interrupted during the check";
      return;
    }
    const Scratch scratch(context.scratch / ("check-" + flat(cell.id)), context.keep_folders);
    const Clock::time_point begin = Clock::now();
    write_cell_folder(scratch.path(), cell, program, FolderPurpose::check, seed, set ? set->exam.folder : "",
                      context.data);
    const auto given = given_files(scratch.path());
    const double folder_seconds = seconds_since(begin);
    std::vector<Command> commands = {Command{Verb::compile}};
    if (set) commands.push_back(Command{Verb::verify});
    ConversationResult result =
        converse(plan_for(cell, *cell.backend, scratch.path(), commands, context), context.watch);
    outcome.hello = result.hello;
    outcome.spent = spent_on(result);
    outcome.spent.folder = folder_seconds;
    take_over(fork, result);
    if (!result.ok() || !set) return;
    const Clock::time_point judging = Clock::now();
    outcome.equivalence = judged(*set, program, scratch.path());
    outcome.spent.judge = seconds_since(judging) + set->seconds;
    settle_exam(fork, outcome.equivalence, changed_files(given, scratch.path()));
  });
  outcome.status = fork.status;
  outcome.reason = fork.reason;
  outcome.log_tail = fork.log_tail;
  return outcome;
}

TimedOutcome time_cell(const Cell& cell, int round, const ForkContext& context,
                       std::optional<ResidentWorker>* resident) {
  TimedOutcome outcome;
  Fork& fork = outcome.fork;
  fork.round = round;
  fork.seed = context.settings.seed + static_cast<std::uint64_t>(round);
  fork.resident = resident && resident->has_value();
  guarded(fork, [&] {
    const Program program = cell.program();
    const bool stays = resident && context.settings.fork_style == ForkStyle::resident && may_stay(cell);
    const Clock::time_point asking = Clock::now();
    const SetExam* set =
        exam_for(cell, program, context.settings.seed + static_cast<std::uint64_t>(round % 2), context,
                 outcome.verified);
    const double asking_seconds = seconds_since(asking);
    // In the caller's hands only after all went well.
    std::optional<ResidentWorker> used = resident ? std::exchange(*resident, std::nullopt) : std::nullopt;
    std::unique_ptr<Scratch> own;
    if (used)
      remove_earlier(used->folder->path());
    else
      own = std::make_unique<Scratch>(context.scratch / flat(cell.id), context.keep_folders);
    const fs::path folder = used ? used->folder->path() : own->path();
    const Clock::time_point begin = Clock::now();
    write_cell_folder(folder, cell, program, FolderPurpose::run, fork.seed, set ? set->exam.folder : "",
                      context.data);
    const auto given = given_files(folder);
    const double folder_seconds = seconds_since(begin);
    std::vector<Command> commands = {Command{used ? Verb::restart : Verb::compile}, Command{Verb::run}};
    if (set) commands.push_back(Command{Verb::verify});
    const ConversationPlan plan = plan_for(cell, *cell.backend, folder, commands, context);
    if (!used) used = ResidentWorker{std::move(own), Worker(plan, context.watch)};
    ConversationResult result =
        used->worker.converse(commands, stays ? Afterwards::stop : Afterwards::quit, plan.deadline);
    fork.spent = spent_on(result);
    fork.spent->folder = folder_seconds;
    fork.spent->judge = asking_seconds;
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
    if (set) {
      const Clock::time_point judging = Clock::now();
      outcome.verified = judged(*set, program, folder);
      fork.spent->judge += seconds_since(judging);
    }
    settle_exam(fork, outcome.verified, changed_files(given, folder));
    if (fork.status == Status::ok && stays) *resident = std::move(used);
  });
  return outcome;
}

Equivalence merged(const Equivalence& a, const Equivalence& b) {
  if (!a.checked) return a.tensors.empty() ? b : a;
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
  if (b.settings && (!a.settings || b.settings->loosest > a.settings->loosest)) result.settings = b.settings;
  return result;
}

}  // namespace assay

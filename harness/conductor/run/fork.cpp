#include "harness/conductor/run/fork.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/check/audit.hpp"
#include "harness/conductor/check/dropout_judge.hpp"
#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/expected_tensors.hpp"
#include "harness/conductor/check/self_judge.hpp"
#include "harness/conductor/config/ranks.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/run/cell_folder.hpp"
#include "harness/conductor/run/cell_report.hpp"
#include "harness/conductor/run/core_watch.hpp"
#include "harness/conductor/run/exams.hpp"
#include "harness/conductor/run/quality.hpp"
#include "harness/conductor/run/run_audit.hpp"
#include "harness/conductor/run/worker_plan.hpp"
#include "harness/core/clock.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/cores.hpp"
#include "harness/machine/environment.hpp"
#include "harness/machine/system_files.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/rank_blocks.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using protocol::Command;
using protocol::Verb;

using Clock = std::chrono::steady_clock;

// Whether the timed program was compared: it has no dropout, or takes the masks of the exam, or did the same steps as
// the program that takes them.
bool exam_is_of_timed_program(const Cell& cell, const Program& program, const Equivalence& equivalence) {
  return program.graph(cell.axes.task).with_role(Role::mask).empty() ||
         cell.backend->timed_program_takes_masks || has_timed_dropout(equivalence);
}

// answers(): those of the workers. Not checked if it throws.
template <typename Answered>
Equivalence judged(const Cell& cell, const SetExam& set, const Program& program, const Answered& answers) {
  try {
    Equivalence equivalence = judge(set.exam, program, answers());
    equivalence.settings = set.settings;
    equivalence.settings->timed_program_verified = exam_is_of_timed_program(cell, program, equivalence);
    return equivalence;
  } catch (const std::runtime_error& error) {
    return {false, false, 0, error.what(), {}};
  }
}

// The exam of a fork; nullptr if none is requested or the oracle does not answer: `unchecked` gets the
// reason.
const SetExam* exam_for(const Cell& cell, const Program& program, std::uint64_t seed, bool timed,
                        const ForkContext& context, Equivalence& unchecked) {
  if (!cell.check) return nullptr;
  try {
    return &context.exams.of(cell, program, seed, timed, context);
  } catch (const std::runtime_error& error) {
    unchecked = {false, false, 0, error.what(), {}};
    return nullptr;
  }
}

// The files that a worker gets and is judged by; it must not change them. Of the operands of a single op and the plans
// of epochs, those of up to 32 MiB: a larger file takes too long to read before and after each fork.
class GivenFiles {
 public:
  // For a cell folder that was written for an exam. `place`: one of several ranks has an exam of its own.
  GivenFiles(const fs::path& folder, const SetExam& set, const RankPlace& place)
      : folder_(folder),
        set_(set),
        own_(digests_of(folder)),
        data_(digests_of_data()),
        exam_(place.world == 1 ? set.digests : digests_of(folder / "check")) {
    own_.erase("log");  // written while the worker runs
    for (auto& [name, digest] : digests_of_small(folder / "epochs"))
      own_.emplace("epochs/" + name, std::move(digest));
  }

  // Describes the changed file; empty if none was changed.
  std::string changed() const {
    std::string name = first_change(own_, folder_);
    if (name.empty()) name = first_change(data_, folder_ / "data");
    if (name.empty()) name = first_change(exam_, folder_ / "check");
    if (name.empty() && sha256_of_file(set_.exam.answers) != set_.answers_digest)
      name = "the oracle's answers";
    return name.empty() ? name
                        : fmt::format("the worker changed {}, an input file that it must not change", name);
  }

 private:
  using Digests = std::map<std::string, std::string>;
  static constexpr std::uintmax_t max_digested_bytes = 32 << 20;

  // The arrays of a data set are in the cache, which a confined worker cannot write.
  Digests digests_of_data() const { return digests_of_small(folder_ / "data"); }

  // Empty if the folder does not exist.
  static Digests digests_of_small(const fs::path& folder) {
    return fs::is_directory(folder) ? digests_of(folder, max_digested_bytes) : Digests();
  }

  std::string first_change(const Digests& given, const fs::path& folder) const {
    for (const auto& [name, digest] : given) {
      const fs::path path = folder / name;
      if (!fs::is_regular_file(path) || sha256_of_file(path) != digest)
        return path.lexically_relative(folder_).string();
    }
    return {};
  }

  fs::path folder_;
  const SetExam& set_;
  Digests own_, data_, exam_;
};

bool interrupted(const ForkContext& context) {
  return context.watch.interrupts && context.watch.interrupts->signal() != 0;
}

// Copies the end of a conversation, and the data about the worker until then, into the fork.
void take_ending(Fork& fork, ConversationResult& result) {
  end_like(fork, result);
  if (!result.ok()) fork.log_tail = result.log_tail;
  fork.gpu = std::move(result.gpu);
}

// A worker reports what it finds in its environment, in which there may be secrets of its user.
void add_settings(Fork& fork, const protocol::Settings& settings) {
  for (const auto& [name, value] : settings)
    if (may_be_listed(name)) fork.settings[name] = value;
}

void take_over(Fork& fork, ConversationResult& result) {
  take_ending(fork, result);
  fork.host_peak_rss = result.peak_rss;
  fork.host_start_rss = result.start_rss;
  fork.samples = std::move(result.samples);
  if (result.hello) add_settings(fork, result.hello->settings);
  if (result.compiled) {
    fork.compile_seconds = result.compiled->seconds;
    fork.memory = result.compiled->memory;
    add_settings(fork, result.compiled->settings);
  }
  if (!result.ran) return;
  fork.parameters_digest = result.ran->state_digest;
  for (const auto& [name, value] : result.ran->memory) fork.memory[name] = value;
  add_settings(fork, result.ran->settings);
  for (const auto& time : result.ran->operators) {
    fork.operators.push_back(
        {{"node", time.node}, {"op", time.op}, {"seconds", time.seconds}, {"calls", time.calls}});
    if (!time.implementation.empty()) fork.operators.back()["implementation"] = time.implementation;
  }
}

// If we cannot make or read files, or have a bug, the row reports the failure and the run continues.
template <typename F>
void guarded(Fork& fork, F body) {
  try {
    body();
  } catch (const DatasetMissing& error) {
    end_with(fork, ReasonCode::dataset_missing, error.what());
  } catch (const std::system_error& error) {
    end_with(fork, is_limit_of_processes(error) ? ReasonCode::place_limit : ReasonCode::files,
             message_of(error));
  } catch (const std::runtime_error& error) {
    end_with(fork, ReasonCode::files, error.what());
  } catch (const std::exception& error) {
    end_with(fork, ReasonCode::internal_error, internal_error(error));
  }
}

// NaNs can make kernels artificially fast, so reject forks whose loss is not finite.
void reject_divergence(Fork& fork) {
  for (const Block& block : fork.blocks) {
    if (!block.loss || std::isfinite(*block.loss)) continue;
    end_with(fork, ReasonCode::loss_not_finite,
             block.epoch > 0 ? fmt::format("the loss is not finite at the end of epoch {}", block.epoch)
                             : "the loss is not finite at the end of a block");
    return;
  }
}

// A framework that was told not to compile is timed as something else than its row says.
void reject_uncompiled(Fork& fork, const Cell& cell) {
  const auto graphs = fork.settings.find("compiled_graphs");
  if (fork.status != Status::ok || !contains(cell.backend->compiles, cell.axes.mode) ||
      graphs == fork.settings.end() || graphs->second != "0")
    return;
  end_with(fork, ReasonCode::nothing_compiled,
           fmt::format(
               "the mode {} compiles, but the worker compiled nothing (compiled_graphs: 0): a setting or a "
               "variable of --environment turns {}'s compiler off",
               cell.axes.mode, cell.backend->name));
}

// Of the batches that a worker stages before its first block, and of what it reads after the last.
std::int64_t bytes_around_run(const Cell& cell, const Program& program) {
  const Graph& graph = program.graph(cell.axes.task);
  const std::int64_t batches =
      cell.measure.epochs > 0 ? 1 : std::max<std::int64_t>(1, cell.measure.resident_batches);
  std::int64_t bytes = batches * input_elements(graph) * std::int64_t{sizeof(float)} + state_bytes(program);
  for (const Graph::Output& output : graph.outputs()) bytes += graph.value(output.value).type.bytes();
  return bytes;
}

// cores: those of the worker; empty: all that may be used.
RunWindow window_of(const Cell& cell, const Program& program, const ConversationResult& result,
                    const std::vector<int>& cores) {
  const auto ns = [](Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  };
  RunWindow window{.begin_ns = ns(result.ran_between->first),
                   .end_ns = ns(result.ran_between->second),
                   .cpu_ns = result.run_cpu_ns,
                   .processors = static_cast<int>(cores.empty() ? usable_cores().size() : cores.size()),
                   .disturbance = result.run_disturbance,
                   .waited_ns = result.run_waited_ns,
                   .quota_stopped_ns = result.quota_stopped_ns,
                   .standstills = result.standstills};
  if (!cell.profile)
    window.handled_bytes = bytes_around_run(cell, program);  // a profile runs each operator after the steps
  if (window.disturbance) window.disturbance->seen_ns = result.run_others_ns;
  if (const auto& stepped = result.stepped_between)
    window.stepped_ns = {ns(stepped->first), ns(stepped->second)};
  return window;
}

// The disturbance of the rank that others disturbed most. It has no `seen_ns`, in which the other ranks are.
std::optional<Disturbance> largest_disturbance(const std::vector<ConversationResult>& results) {
  std::optional<Disturbance> largest;
  for (const ConversationResult& result : results)
    if (result.run_disturbance &&
        (!largest || result.run_disturbance->others_share() > largest->others_share()))
      largest = result.run_disturbance;
  return largest;
}

// Adds the time of the worker's answers.
void add_spent(TimeSpent& spent, const ConversationResult& result) {
  spent.start += result.start_seconds;
  spent.quit += result.quit_seconds;
  for (const auto& [verb, seconds] : result.command_seconds) {
    if (verb == Verb::compile || verb == Verb::restart) spent.compile += seconds;
    if (verb == Verb::run) spent.run += seconds;
    if (verb == Verb::verify) spent.check += seconds;
    if (verb == Verb::exchange) spent.exchange += seconds;
  }
}

// Values that are not finite spread in each library in its own way, so a run that ended with them says nothing about
// the library.
void reject_infinite_parameters(Fork& fork, Equivalence& verified) {
  if (verified.not_finite.empty() || !differs_only_after_run(verified)) return;
  end_with(
      fork, ReasonCode::parameters_not_finite,
      fmt::format(
          "the timed steps left {} with values that are not finite; the learning rate, the samples or the "
          "initial values may be too large; assay check examines the backend without them",
          verified.not_finite));
  verified.checked = verified.passed = false;
  verified.reason = fork.reason;
}

// Sets the status of a fork from the exam and from changed files.
void resolve_exam(Fork& fork, const Equivalence& equivalence, const std::string& changed) {
  const bool wrong = equivalence.checked && !equivalence.passed;
  if (!wrong && changed.empty()) return;
  if (wrong)
    end_with(fork, ReasonCode::differs_from_oracle, equivalence.reason);
  else
    end_with(fork, ReasonCode::exam_changed, changed);
}

// A worker may load a script at any time until it has run.
void reject_changed_backend(Fork& fork, const BackendDescription& backend, const BackendDigest& before) {
  const std::string name = changed_backend_file(before, digest_of(backend));
  if (name.empty()) return;
  end_with(fork, ReasonCode::backend_changed,
           fmt::format(
               "{} of the backend {} was changed while its worker ran: do not change a backend during a run",
               name, backend.name));
}

// Ranks that exchange their gradients end with the same bits. The exam, which sets their state, cannot see what they did
// before.
void reject_unlike_ranks(Fork& fork, Equivalence& verified) {
  for (const RankRecord& rank : fork.ranks) {
    if (rank.parameters_digest == fork.ranks.front().parameters_digest) continue;
    end_with(fork, ReasonCode::ranks_differ,
             fmt::format("rank {} ended its timed steps with other parameters than rank 0", rank.rank));
    verified.passed = false;
    verified.reason = fork.reason;
    return;
  }
}

// Whether a worker can serve several forks: not with a cold start, a framework's own loader, a profile or other ranks.
bool may_stay(const Cell& cell) {
  return cell.measure.epochs == 0 && cell.axes.loader != LoaderKind::native && !cell.profile &&
         cell.axes.ranks() == 1;
}

// Throws unless the fork has the requested timed blocks (or timed steps); a fork that counts epochs has one
// block per epoch.
void reject_other_plan(const Fork& fork, const MeasurePlan& plan) {
  std::int64_t blocks = 0, steps = 0;
  for (const Block& block : fork.blocks) {
    if (block.kind != BlockKind::timed) continue;
    ++blocks;
    if (__builtin_add_overflow(steps, block.steps, &steps))
      throw Error("results/clock.json: has more timed steps than can be counted");
  }
  const bool counts = plan.steps > 0 && plan.epochs == 0;
  const std::int64_t asked = plan.epochs > 0 ? plan.epochs : counts ? plan.steps : plan.blocks;
  const std::int64_t found = counts ? steps : blocks;
  if (found != asked)
    throw Error(fmt::format("results/clock.json: has {} timed {}, but {} were requested", found,
                            counts ? "steps" : "blocks", asked));
}

// A worker of the cell, and where it works.
struct Member {
  RankPlace place;
  fs::path folder;
  ConversationPlan plan;
  std::optional<GivenFiles> given{};  // if it gets an exam
};

std::string cores_of(const Member& member) {
  return member.plan.worker.cores.empty() ? "inherited" : cores_text(member.plan.worker.cores);
}

// The processors of all workers, or "rank 0: 0; rank 1: 1".
std::string cores_of(const std::vector<Member>& members) {
  if (members.size() == 1) return cores_of(members.front());
  std::string text;
  for (const Member& member : members)
    text += fmt::format("{}rank {}: {}", text.empty() ? "" : "; ", member.place.rank, cores_of(member));
  return text;
}

// Reads the measurements of one worker. If others are why its blocks cover too little, the disturbance is that of the
// window. Throws Error if they are impossible.
Fork read_member(const Fork& fork, const Cell& cell, const Member& member, const RunWindow& window) {
  Fork measured = fork;  // a copy, so that impossible numbers do not get into the report
  read_clock(member.folder / "results/clock.json", cell.has_loss(), measured);
  if (measured.disturbance)
    measured.disturbance->seen_ns = window.disturbance ? window.disturbance->seen_ns : std::nullopt;
  Violations violations("results/clock.json");
  judge_fork(violations, measured);
  if (!violations.found().empty()) throw Error(violations.found().front());
  reject_other_plan(measured, cell.measure);
  if (const std::string contradiction = contradiction_in_clock(measured, window); !contradiction.empty())
    throw Error(contradiction);
  measured.quota_stopped_ns = window.quota_stopped_ns;
  if (stopped_by_quota(window)) measured.flags.emplace_back(quality_flag::quota);
  warn_of_own_threads(measured, window, cell);
  if (waited_for_others(measured, window)) {
    measured.disturbance = window.disturbance;
    measured.flags.emplace_back(quality_flag::uncovered);
  }
  note_standstills(measured, window);
  return measured;
}

// Names the rank in an error.
Fork read_rank(const Fork& fork, const Cell& cell, const Member& member, const RunWindow& window) try {
  return read_member(fork, cell, member, window);
} catch (const Error& error) {
  throw Error(fmt::format("rank {}: {}", member.place.rank, error.what()));
}

// The digest that all ranks have; a digest of all if they differ.
std::string joined_digest(const std::vector<RankRecord>& ranks) {
  std::string all;
  bool same = true;
  for (const RankRecord& rank : ranks) {
    same = same && rank.parameters_digest == ranks.front().parameters_digest;
    all += rank.parameters_digest;
  }
  return same ? ranks.front().parameters_digest : sha256(all);
}

// Reads the measurements of all ranks. The evaluations are those of rank 0, as every rank evaluates all samples.
Fork read_ranks(const Fork& fork, const Cell& cell, const Program& program,
                const std::vector<Member>& members, const std::vector<ConversationResult>& results) {
  std::optional<Fork> all;
  std::vector<RankRecord> records;
  const std::optional<Disturbance> largest = largest_disturbance(results);
  bool waited = false;  // a rank for others
  for (std::size_t i = 0; i < members.size(); ++i) {
    RunWindow window = window_of(cell, program, results[i], members[i].plan.worker.cores);
    window.disturbance = largest;
    Fork own = read_rank(fork, cell, members[i], window);
    if (!all) all = own;
    waited = waited || contains(own.flags, quality_flag::uncovered);
    if (contains(own.flags, quality_flag::quota) && !contains(all->flags, quality_flag::quota))
      all->flags.emplace_back(quality_flag::quota);
    all->quota_stopped_ns = std::max(all->quota_stopped_ns, own.quota_stopped_ns);
    if (contains(own.flags, quality_flag::frozen) && !contains(all->flags, quality_flag::frozen)) {
      all->flags.emplace_back(quality_flag::frozen);
      all->warnings = own.warnings;
    }
    records.push_back({.rank = members[i].place.rank,
                       .cores = cores_of(members[i]),
                       .blocks = std::move(own.blocks),
                       .disturbance = own.disturbance,
                       .compile_seconds = results[i].compiled->seconds,
                       .host_peak_rss = results[i].peak_rss,
                       .host_start_rss = results[i].start_rss,
                       .parameters_digest = results[i].ran->state_digest});
  }
  if (const std::string unlike = unlike_blocks(records); !unlike.empty()) throw Error(unlike);
  if (waited) {
    for (std::size_t i = 0; i < records.size(); ++i) records[i].disturbance = results[i].run_disturbance;
    if (!contains(all->flags, quality_flag::uncovered)) all->flags.emplace_back(quality_flag::uncovered);
  }
  all->blocks = joined_blocks(records);
  all->disturbance = joined_disturbance(records);
  all->parameters_digest = joined_digest(records);
  all->ranks = std::move(records);
  return *all;
}

// Reads the measurements of a timed fork; the status says why they are rejected.
void take_clock(Fork& fork, const Cell& cell, const Program& program, const std::vector<Member>& members,
                const ConversationResult& result, const std::vector<ConversationResult>& results) try {
  fork = members.size() == 1
             ? read_member(fork, cell, members.front(),
                           window_of(cell, program, result, members.front().plan.worker.cores))
             : read_ranks(fork, cell, program, members, results);
  add_quality_flags(fork, cell);
  add_warnings(fork);
  reject_divergence(fork);
  if (result.strayed_to)
    end_with(
        fork, ReasonCode::processors_left,
        fmt::format("a thread of the worker may run on processor {}, outside the worker's processors ({})",
                    *result.strayed_to, cores_of(members)));
  else if (!result.confined_to.empty() && cell.axes.device == DeviceKind::cpu)
    end_with(fork, ReasonCode::processors_unused,
             fmt::format(
                 "the threads that compute may run only on processor {} of the worker's processors ({}): its "
                 "library or a variable of --environment pins them, such as OMP_PLACES",
                 cores_text(result.confined_to), cores_of(members)));
} catch (const Error& error) {
  end_with(fork, ReasonCode::clock_refused, error.what());
}

// Whether the ranks of a cell are asked what their exchange costs. It takes time that --quick does not have.
bool exchange_is_timed(const Cell& cell, const ForkContext& context) {
  return cell.axes.ranks() > 1 && cell.backend->times_exchange && !context.settings.quick;
}

// Copies what the ranks measured of their exchange.
void take_exchange(Fork& fork, std::vector<ConversationResult>& results) {
  for (std::size_t rank = 0; rank < std::min(fork.ranks.size(), results.size()); ++rank)
    if (results[rank].exchanged) fork.ranks[rank].exchange = std::move(results[rank].exchanged);
}

// A later fork of a resident worker: its code is compiled and its threads exist, so --warm-up-seconds decides. One
// step brings the operands into the caches, and one more shows that steps are steady.
Cell already_warm(Cell cell) {
  cell.measure.warm_up_steps = std::min<std::int64_t>(cell.measure.warm_up_steps, 2);
  return cell;
}

Cell with_threads(Cell cell, std::optional<int> threads) {
  cell.axes.threads = threads.value_or(cell.axes.threads);
  return cell;
}

// The workers' processors that do not share a physical core as far as the system shows it; none if the work is on a
// GPU.
std::vector<int> watched_processors(const Cell& cell, const std::vector<Member>& members) {
  if (cell.axes.device != DeviceKind::cpu) return {};
  std::set<int> cores;
  for (const Member& member : members) {
    if (member.plan.worker.cores.empty()) return one_per_core(usable_cores());
    cores.insert(member.plan.worker.cores.begin(), member.plan.worker.cores.end());
  }
  return one_per_core({cores.begin(), cores.end()});
}

}  // namespace

bool is_checked_before(const Cell& cell) { return cell.measure.epochs > 0; }

std::string check_subject(const Cell& cell, const Program& program) {
  nlohmann::json request = request_json(cell, 0);  // has the number of ranks
  // The settings of timing and loading do not affect the check.
  for (const char* key : {"clock", "loader"}) request.erase(key);
  Sha256 sum;
  sum.add(cell.axes.backend);
  sum.add(request.dump());
  sum.add(to_json(program).dump());
  return sum.finish();
}

namespace {

// The cell's workers, each with its folder: `folder` itself, or one below it for each of several ranks.
std::vector<Member> members_of(const Cell& cell, const fs::path& folder) {
  const int world = cell.axes.ranks();
  if (world == 1) return {{.place = {}, .folder = folder, .plan = {}}};
  const std::string rendezvous = free_rendezvous(cell.rendezvous);
  std::vector<Member> members;
  for (int rank = 0; rank < world; ++rank)
    members.push_back(
        {.place = {rank, world, rendezvous}, .folder = folder / fmt::format("rank-{}", rank), .plan = {}});
  return members;
}

// Describes a file that one of the workers changed; empty if none was changed.
std::string changed_file(const std::vector<Member>& members) {
  for (const Member& member : members)
    if (std::string changed = member.given ? member.given->changed() : ""; !changed.empty()) return changed;
  return {};
}

// Where the workers answer. The first one is judged by what other programs computed of the run.
std::vector<RankAnswers> answers_of(const std::vector<Member>& members, const RunAudit& audit) {
  std::vector<RankAnswers> answers;
  for (const Member& member : members)
    answers.push_back({member.folder / "results/verify.safetensors", answers.empty() ? audit : RunAudit{}});
  for (RankAnswers& one : answers) {
    one.audit.own_loader = audit.own_loader;
    one.audit.deterministic = audit.deterministic;
    one.audit.excerpt = audit.excerpt;
  }
  return answers;
}

// Runs a fork, from the exam and the cell folder to the verdict. resident: as in time_cell().
ForkOutcome run_fork(const Cell& cell, const Program& program, FolderPurpose purpose, int round,
                     const ForkContext& context, std::optional<ResidentWorker>* resident) {
  const bool timed = purpose == FolderPurpose::run;
  ForkOutcome outcome;
  Fork& fork = outcome.fork;
  fork.round = round;
  fork.seed = context.settings.seed_of(round);
  fork.resident = resident && resident->has_value();
  TimeSpent spent;  // in this process
  WorkerFolders folders;
  guarded(fork, [&] {
    const bool stays = resident && context.settings.fork_style == ForkStyle::resident && may_stay(cell);
    Clock::time_point begin = Clock::now();
    const SetExam* set =
        exam_for(cell, program, context.settings.exam_seed_of(round), timed, context, outcome.verified);
    spent.judge = seconds_since(begin);
    if (interrupted(context)) {
      end_with(fork, ReasonCode::interrupted_by_signal, "interrupted before its worker was started");
      return;
    }
    // Given back to the caller only after success.
    std::optional<ResidentWorker> used = resident ? std::exchange(*resident, std::nullopt) : std::nullopt;
    std::unique_ptr<ForkFolders> own;
    if (used)
      remove_earlier(used->folders->cell());
    else
      own = std::make_unique<ForkFolders>(context.scratch, (timed ? "" : "check-") + file_name_of(cell),
                                          context.keep_folders);
    folders = used ? used->folders->both() : own->both();
    const Cell acting = with_threads(cell, timed ? context.threads : std::nullopt);
    std::vector<Member> members = members_of(cell, folders.cell);
    begin = Clock::now();
    for (Member& member : members) {
      write_cell_folder(member.folder, used ? already_warm(acting) : acting, program, purpose, fork.seed,
                        set ? set->exam.folder : "", context.data, context.weights, member.place);
      if (set) member.given.emplace(member.folder, *set, member.place);
    }
    spent.folder = seconds_since(begin);
    const bool starts = !used;
    outcome.backend = used ? used->backend : digest_of(*cell.backend);
    fork.adapter_digest = outcome.backend.adapter;
    fork.program_digest = outcome.backend.program;
    if (timed && cell.reads_dataset())
      fork.data_digest = context.data.get(cell, program).provenance.checksum.value_or("");

    const Command first{used ? Verb::restart : Verb::compile}, second{timed ? Verb::run : Verb::verify};
    std::vector<ConversationPlan> plans;
    for (Member& member : members) {
      member.plan = plan_for(acting, *cell.backend, {member.folder, folders.temporary}, {first, second},
                             context, member.place);
      if (timed && context.threads)
        member.plan.worker.cores = worker_cores(cell.axes.all_threads(), context.lane);
      plans.push_back(member.plan);
    }
    if (!used) {
      std::optional<LaunchPlan> launch = launch_plan(cell, folders);
      used = ResidentWorker{std::move(own), Team(std::move(plans), context.watch, std::move(launch)),
                            outcome.backend};
    }
    std::vector<ConversationResult> results;  // of the ranks
    const auto say = [&](const std::vector<Command>& commands, Afterwards afterwards) {
      results = used->team.converse(commands, afterwards, context.deadline);
      ConversationResult result = joined(results);
      add_spent(spent, result);
      return result;
    };
    RunAudit audit;
    const fs::path& first_folder = members.front().folder;
    const Afterwards at_end = stays ? Afterwards::stop : Afterwards::quit;
    ConversationResult result = say({first}, timed || set ? Afterwards::stay : at_end);
    if (result.ok() && timed) {
      const std::vector<int> processors = watched_processors(cell, members);
      context.cores->before_run(processors, !context.settings.quick);
      const auto sent_before = cell.axes.ranks() > 1 ? loopback_bytes() : std::nullopt;
      result = say({second}, Afterwards::stay);
      if (const auto sent = sent_before ? loopback_bytes() : std::nullopt)
        fork.loopback_bytes = *sent - *sent_before;
      if (result.ok()) fork.placement = context.cores->after_run(processors);
    } else if (result.ok() && set) {
      audit.excerpt = choose_excerpt(program, first_folder / "check");
      for (const Member& member : members) write_audit(member.folder / "check", audit);
      result = say({second}, at_end);
    }
    outcome.hello = result.hello;
    if (outcome.hello) mark_under_test(outcome.hello->libraries, *cell.backend);
    if (result.compiled && !fork.resident)
      warn_of_compile_time(fork, result.compiled->seconds, spent.compile);
    take_over(fork, result);
    fork.settings["affinity"] = cores_of(members);
    if (members.size() > 1) {
      fork.settings["launcher"] = to_string(cell.launcher);
      fork.settings["nodes"] = std::to_string(used->team.nodes());
      fork.settings["rendezvous"] = cell.rendezvous;
    }
    fork.settings["wait_policy"] = wait_policy(members.front().plan.worker);
    fork.settings["confined_by"] = confined_by();
    fork.variables = own_variables(members.front().plan.worker, context.settings);
    if (!result.ok()) return;
    if (timed) take_clock(fork, cell, program, members, result, results);
    reject_uncompiled(fork, cell);
    if (timed && context.threads) {
      fork.flags.emplace_back(quality_flag::fewer_threads);
      fork.settings["fewer_threads"] = std::to_string(*context.threads);
    }
    if (starts && fork.status == Status::ok) reject_changed_backend(fork, *cell.backend, outcome.backend);
    if (fork.status != Status::ok) return;
    // Chosen now, so that the worker could not know it while it was timed. Its program was examined after the
    // first fork.
    fork.examined = set && (!fork.resident || context.settings.examine_all ||
                            chosen_of_later_forks(std::random_device()()));
    // After the exam, because it leaves another state.
    std::vector<Command> at_last;
    if (timed && fork.examined) at_last.push_back({Verb::verify});
    if (timed && exchange_is_timed(cell, context)) at_last.push_back({Verb::exchange});
    if (timed && !fork.examined) {
      ConversationResult last = say(at_last, at_end);
      take_ending(fork, last);
      if (!last.ok()) return;
      take_exchange(fork, results);
      if (const std::string changed = changed_file(members); !changed.empty())
        end_with(fork, ReasonCode::exam_changed, changed);
    }
    if (fork.examined) {
      if (timed) {
        audit = ask_about_run(cell, program, fork, first_folder, context);
        for (const Member& member : members) write_audit(member.folder / "check", audit);
        ConversationResult last = say(at_last, at_end);
        take_ending(fork, last);
        if (!last.ok()) return;
        take_exchange(fork, results);
      }
      begin = Clock::now();
      outcome.verified = judged(cell, *set, program, [&] {
        if (timed) compute_audit(audit, cell, program, fork, first_folder, context);
        return answers_of(members, audit);
      });
      reject_infinite_parameters(fork, outcome.verified);
      if (fork.status == Status::ok) reject_unlike_ranks(fork, outcome.verified);
      if (fork.status == Status::ok) resolve_exam(fork, outcome.verified, changed_file(members));
      spent.judge += seconds_since(begin);
    }
    if (fork.status == Status::ok && !fork.examined) reject_unlike_ranks(fork, outcome.verified);
    if (fork.status == Status::ok && stays) *resident = std::move(used);
  });
  fork.spent = spent;
  const bool removed = !context.keep_folders && !folders.cell.empty() && !(resident && resident->has_value());
  if (const std::string left = removed ? what_is_left(folders) : ""; !left.empty())
    fork.warnings.push_back(
        fmt::format("{}; remove it by hand, as its owner or as root (chattr -R -ia, rm -r)", left));
  return outcome;
}

}  // namespace

ForkOutcome check_cell(const Cell& cell, const Program& program, const ForkContext& context) {
  return run_fork(cell, program, FolderPurpose::check, 0, context, nullptr);
}

ForkOutcome time_cell(const Cell& cell, int round, const ForkContext& context,
                      std::optional<ResidentWorker>* resident) {
  return run_fork(cell, cell.program(), FolderPurpose::run, round, context, resident);
}

}  // namespace assay

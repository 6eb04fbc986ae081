#include "harness/conductor/fork/fork.hpp"

#include <algorithm>
#include <new>
#include <random>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/check/audit.hpp"
#include "harness/conductor/check/dropout_judge.hpp"
#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/self_judge.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/conductor/fork/core_watch.hpp"
#include "harness/conductor/fork/exams.hpp"
#include "harness/conductor/fork/fork_clock.hpp"
#include "harness/conductor/fork/fork_verdict.hpp"
#include "harness/conductor/fork/members.hpp"
#include "harness/conductor/fork/quality.hpp"
#include "harness/conductor/fork/run_audit.hpp"
#include "harness/conductor/fork/under_test.hpp"
#include "harness/conductor/fork/worker_plan.hpp"
#include "harness/core/clock.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/cores.hpp"
#include "harness/machine/environment.hpp"
#include "harness/machine/system_files.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using protocol::Command;
using protocol::Verb;

using Clock = std::chrono::steady_clock;

// Whether the timed program was compared: it has no dropout, or takes the masks of the exam, or did the same steps as
// the program that takes them.
bool exam_is_of_timed_program(const Cell& cell, const Equivalence& equivalence) {
  return cell.program->graph(cell.axes.task).with_role(Role::mask).empty() ||
         cell.backend->timed_program_takes_masks || has_timed_dropout(equivalence);
}

// answers(): those of the workers. Not checked if it throws.
template <typename Answered>
Equivalence judged(const Cell& cell, const SetExam& set, const Answered& answers) {
  try {
    Equivalence equivalence = judge(set.exam, *cell.program, answers());
    equivalence.settings = set.settings;
    equivalence.settings->timed_program_verified = exam_is_of_timed_program(cell, equivalence);
    return equivalence;
  } catch (const std::runtime_error& error) {
    return {false, false, 0, error.what(), {}};
  }
}

// The exam of a fork; nullptr if none is requested or the oracle does not answer: `unchecked` gets the
// reason.
const SetExam* exam_for(const Cell& cell, std::uint64_t seed, bool timed, const ForkContext& context,
                        Equivalence& unchecked) {
  if (!cell.check) return nullptr;
  try {
    return &context.exams.of(cell, seed, timed, context);
  } catch (const std::runtime_error& error) {
    unchecked = {false, false, 0, error.what(), {}};
    return nullptr;
  }
}

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
  } catch (const std::bad_alloc& error) {
    end_with(fork, ReasonCode::place_limit, internal_error(error));
  } catch (const std::exception& error) {
    end_with(fork, ReasonCode::internal_error, internal_error(error));
  }
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

// Whether a worker can serve several forks: not with a cold start, a framework's own loader, a profile or other ranks.
bool may_stay(const Cell& cell) {
  return cell.measure.epochs == 0 && cell.axes.loader != LoaderKind::native && !cell.profile &&
         cell.axes.ranks() == 1;
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

}  // namespace

bool is_checked_before(const Cell& cell) { return cell.measure.epochs > 0; }

std::string check_subject(const Cell& cell) {
  nlohmann::json request = request_json(cell, 0);  // has the number of ranks
  // The settings of timing and loading do not affect the check.
  for (const char* key : {"clock", "loader"}) request.erase(key);
  Sha256 sum;
  sum.add(cell.axes.backend);
  sum.add(request.dump());
  sum.add(to_json(*cell.program).dump());
  return sum.finish();
}

namespace {

// Runs a fork, from the exam and the cell folder to the verdict. resident: as in time_cell().
ForkOutcome run_fork(const Cell& cell, FolderPurpose purpose, int round, const ForkContext& context,
                     std::optional<ResidentWorker>* resident) {
  const bool timed = purpose == FolderPurpose::run;
  ForkOutcome outcome;
  Fork& fork = outcome.fork;
  fork.round = round;
  fork.seed = context.settings.seed_of(round);
  fork.resident = resident && resident->has_value();
  TimeSpent spent;  // in this process
  WorkerFolders folders;
  const PreparedDataset* data = nullptr;
  guarded(fork, [&] {
    if (timed && cell.reads_dataset()) {
      data = &context.data.get(cell);
      fork.data_digest = data->provenance.checksum.value_or("");
      if (reject_changed_data(fork, *data)) return;
    }
    const bool stays = resident && context.settings.fork_style == ForkStyle::resident && may_stay(cell);
    Clock::time_point begin = Clock::now();
    const SetExam* set =
        exam_for(cell, context.settings.exam_seed_of(round), timed, context, outcome.verified);
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
      write_cell_folder(member.folder, used ? already_warm(acting) : acting, purpose, fork.seed,
                        set ? set->exam.folder : "", context.data, context.weights, member.place);
      if (set) member.given.emplace(member.folder, *set, member.place);
    }
    spent.folder = seconds_since(begin);
    const bool starts = !used;
    outcome.backend = used ? used->backend : digest_of(*cell.backend);
    fork.adapter_digest = outcome.backend.adapter;
    fork.program_digest = outcome.backend.program;

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
      audit.excerpt = choose_excerpt(*cell.program, first_folder / "check");
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
    if (timed) take_clock(fork, cell, members, result, results);
    reject_uncompiled(fork, cell);
    if (timed && context.threads) {
      fork.flags.emplace_back(quality_flag::fewer_threads);
      fork.settings["fewer_threads"] = std::to_string(*context.threads);
    }
    if (starts && fork.status == Status::ok) reject_changed_backend(fork, *cell.backend, outcome.backend);
    if (fork.status != Status::ok) return;
    // Chosen now, so that the worker could not know it while it was timed. Its program was examined after the
    // first fork, and is at least once more.
    const bool due = !used->examined_again && round + 1 >= context.settings.forks;
    fork.examined = set && (!fork.resident || context.settings.examine_all || due ||
                            chosen_of_later_forks(std::random_device()()));
    used->examined_again = used->examined_again || (fork.resident && fork.examined);
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
        audit = ask_about_run(cell, fork, first_folder, context);
        for (const Member& member : members) write_audit(member.folder / "check", audit);
        ConversationResult last = say(at_last, at_end);
        take_ending(fork, last);
        if (!last.ok()) return;
        take_exchange(fork, results);
      }
      begin = Clock::now();
      outcome.verified = judged(cell, *set, [&] {
        if (timed) compute_audit(audit, cell, fork, first_folder, context);
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
  if (data != nullptr && fork.status != Status::interrupted && reject_changed_data(fork, *data))
    outcome.verified = {};
  fork.spent = spent;
  const bool removed = !context.keep_folders && !folders.cell.empty() && !(resident && resident->has_value());
  if (const std::string left = removed ? what_is_left(folders) : ""; !left.empty())
    fork.warnings.push_back(
        fmt::format("{}; remove it by hand, as its owner or as root (chattr -R -ia, rm -r)", left));
  return outcome;
}

}  // namespace

ForkOutcome check_cell(const Cell& cell, const ForkContext& context) {
  return run_fork(cell, FolderPurpose::check, 0, context, nullptr);
}

ForkOutcome time_cell(const Cell& cell, int round, const ForkContext& context,
                      std::optional<ResidentWorker>* resident) {
  return run_fork(cell, FolderPurpose::run, round, context, resident);
}

}  // namespace assay

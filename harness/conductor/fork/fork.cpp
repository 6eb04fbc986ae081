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
#include "harness/conductor/fork/fork_answers.hpp"
#include "harness/conductor/fork/fork_clock.hpp"
#include "harness/conductor/fork/fork_verdict.hpp"
#include "harness/conductor/fork/hosts.hpp"
#include "harness/conductor/fork/members.hpp"
#include "harness/conductor/fork/quality.hpp"
#include "harness/conductor/fork/run_audit.hpp"
#include "harness/conductor/fork/under_test.hpp"
#include "harness/conductor/fork/worker_plan.hpp"
#include "harness/conductor/process/remote_worker.hpp"
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
  return !cell.program->draws_masks(cell.axes.task) || cell.backend->timed_program_takes_masks ||
         has_timed_dropout(equivalence);
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

// Whether a worker can serve several forks: not with a cold start, a framework's own loader, a profile or other ranks.
bool may_stay(const Cell& cell) {
  return cell.measure.epochs == 0 && cell.axes.loader != LoaderKind::native && !cell.profile &&
         cell.axes.ranks() == 1;
}

// Whether the ranks of a cell are asked what their exchange costs. It takes time that --quick does not have.
bool exchange_is_timed(const Cell& cell, const ForkContext& context) {
  return cell.axes.ranks() > 1 && cell.backend->times_exchange && !context.settings.quick;
}

// Whether a single op is timed on its device alone, where a step is mostly the host's launch of it.
bool device_is_timed(const Cell& cell, const ForkContext& context) {
  return cell.axes.is_op() && cell.axes.device != DeviceKind::cpu && cell.backend->times_device &&
         !cell.profile && !context.settings.quick;
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

// A fork, from the exam and the cell folder to the verdict. A phase that returns false is the last one: the fork has
// its status and reason.
class ForkRun {
 public:
  // resident: as in time_cell().
  ForkRun(const Cell& cell, FolderPurpose purpose, int round, const ForkContext& context,
          std::optional<ResidentWorker>* resident)
      : cell_(cell), purpose_(purpose), round_(round), context_(context), resident_(resident) {
    fork_.round = round;
    fork_.seed = context.settings.seed_of(round);
    fork_.resident = resident && resident->has_value();
    stays_ = resident && context.settings.fork_style == ForkStyle::resident && may_stay(cell);
  }

  // Call it once.
  ForkOutcome take() {
    guarded(fork_, [this] {
      if (!prepare() || !make_worker()) return;
      if (converse() && measure() && examine() && stays_) *resident_ = std::move(worker_);
    });
    worker_.reset();  // it ends
    launch_.reset();
    own_.reset();
    if (data_ && fork_.status != Status::interrupted && reject_changed_data(fork_, *data_))
      outcome_.verified = {};
    fork_.spent = spent_;
    name_what_is_left();
    return std::move(outcome_);
  }

 private:
  bool timed() const { return purpose_ == FolderPurpose::run; }
  bool is_ok() const { return fork_.status == Status::ok; }

  // The data set and the exam.
  bool prepare() {
    if (timed() && cell_.reads_dataset()) {
      data_ = &context_.data.get(cell_);
      fork_.data_digest = data_->provenance.checksum.value_or("");
      if (reject_changed_data(fork_, *data_)) return false;
    }
    const Clock::time_point begin = Clock::now();
    set_ = exam_for(cell_, context_.settings.exam_seed_of(round_), timed(), context_, outcome_.verified);
    spent_.judge = seconds_since(begin);
    if (!interrupted(context_)) return true;
    end_with(fork_, ReasonCode::interrupted_by_signal, "interrupted before its worker was started");
    return false;
  }

  // The worker that stayed, or a new one, with its folders. It is given back to the caller only after success. False: its
  // ranks were not started.
  bool make_worker() {
    if (resident_) worker_ = std::exchange(*resident_, std::nullopt);
    starts_ = !worker_;
    if (worker_)
      remove_earlier(worker_->folders->cell());
    else
      own_ = std::make_unique<ForkFolders>(context_.scratch, (timed() ? "" : "check-") + file_name_of(cell_),
                                           context_.keep_folders);
    folders_ = worker_ ? worker_->folders->both() : own_->both();
    if (starts_ && (!launch() || !seat())) return false;
    const Cell acting = with_threads(cell_, timed() ? context_.threads : std::nullopt);
    if (!starts_) members_ = members_of(cell_, folders_.cell, nullptr);
    write_folders(starts_ ? acting : already_warm(acting));
    outcome_.backend = worker_ ? worker_->backend : digest_of(*cell_.backend);
    fork_.adapter_digest = outcome_.backend.adapter;
    fork_.program_digest = outcome_.backend.program;
    std::vector<ConversationPlan> plans = plans_for(acting);
    if (worker_) return true;
    worker_ = ResidentWorker{std::move(own_), Team(std::move(plans), context_.watch, std::move(launch_)),
                             outcome_.backend};
    return true;
  }

  // The workers' places. False: a machine of theirs was lost.
  bool seat() try {
    if (is_apart_) outcome_.hosts = look_at_hosts(*launch_, *cell_.backend, fork_);
    members_ = members_of(cell_, folders_.cell, launch_.get());
    return true;
  } catch (const LinkBroken& error) {
    const auto ending = launch_->ending();
    const WorkerEnding why = ending ? *ending : lost("a machine of its ranks", error.what());
    end_with(fork_, why.code, why.reason);
    fork_.log_tail = launch_->log_tail();
    return false;
  }

  // Has the ranks started, if another program starts them. False: they are not there.
  bool launch() {
    std::optional<LaunchPlan> plan = launch_plan(cell_, folders_);
    if (!plan) return true;
    const Clock::time_point begin = Clock::now();
    launch_ = std::make_unique<Launch>(std::move(*plan));
    const auto failure =
        launch_->gather(context_.settings.time_limit, context_.deadline, context_.watch.interrupts);
    spent_.start += seconds_since(begin);
    if (failure) {
      end_with(fork_, failure->code, failure->reason);
      fork_.log_tail = launch_->log_tail();
      launch_.reset();
      return false;
    }
    is_apart_ = launch_->is_apart();
    fork_.settings["nodes"] = std::to_string(launch_->hosts());
    return true;
  }

  void write_folders(const Cell& acting) {
    const Clock::time_point begin = Clock::now();
    for (Member& member : members_) {
      write_cell_folder(member.folder, acting, purpose_, fork_.seed, set_ ? set_->exam.folder : "",
                        context_.data, context_.weights, member.place);
      if (set_) member.given.emplace(member.folder, *set_, member.place);
    }
    spent_.folder = seconds_since(begin);
  }

  std::vector<ConversationPlan> plans_for(const Cell& acting) {
    std::vector<ConversationPlan> plans;
    for (Member& member : members_) {
      member.plan = plan_for(acting, *cell_.backend, {member.folder, folders_.temporary},
                             {first_command(), second_command()}, context_, member.place);
      if (timed() && context_.threads)
        member.plan.worker.cores = worker_cores(cell_.axes.all_threads(), context_.lane);
      plans.push_back(member.plan);
    }
    if (is_apart_ && cell_.axes.device == DeviceKind::cpu)
      for (std::size_t rank = 0; rank < plans.size(); ++rank)
        if (members_[rank].place.local == 0) plans[rank].placed = processors_with(members_, rank);
    return plans;
  }

  Command first_command() const { return {starts_ ? Verb::compile : Verb::restart}; }
  Command second_command() const { return {timed() ? Verb::run : Verb::verify}; }
  Afterwards at_end() const { return stays_ ? Afterwards::stop : Afterwards::quit; }

  ConversationResult say(const std::vector<Command>& commands, Afterwards afterwards) {
    results_ = worker_->team.converse(commands, afterwards, context_.deadline);
    ConversationResult result = joined(results_);
    add_spent(spent_, result);
    return result;
  }

  // Compiles, and runs the steps or, in a check, the exam.
  bool converse() {
    ConversationResult result = say({first_command()}, timed() || set_ ? Afterwards::stay : at_end());
    if (result.ok() && timed()) {
      result = run_steps();
    } else if (result.ok() && set_) {
      audit_.excerpt = choose_excerpt(*cell_.program, members_.front().folder / "check");
      write_audits();
      result = say({second_command()}, at_end());
    }
    take_answers(std::move(result));
    return answer_.ok();
  }

  ConversationResult run_steps() {
    const std::vector<int> processors = watched_processors(cell_, members_);
    context_.cores->before_run(processors, !context_.settings.quick);
    const auto sent_before = cell_.axes.ranks() > 1 && !is_apart_ ? loopback_bytes() : std::nullopt;
    ConversationResult result = say({second_command()}, Afterwards::stay);
    if (const auto sent = sent_before ? loopback_bytes() : std::nullopt)
      fork_.loopback_bytes = *sent - *sent_before;
    if (result.ok()) fork_.placement = context_.cores->after_run(processors);
    return result;
  }

  void take_answers(ConversationResult result) {
    outcome_.hello = result.hello;
    if (outcome_.hello) mark_under_test(outcome_.hello->libraries, *cell_.backend);
    if (result.compiled && !fork_.resident)
      warn_of_compile_time(fork_, result.compiled->seconds, spent_.compile);
    take_over(fork_, result);
    fork_.settings["affinity"] = cores_of(members_);
    if (members_.size() > 1) {
      fork_.settings["launcher"] = to_string(cell_.launcher);
      fork_.settings.try_emplace("nodes", "1");
      const std::string& place = members_.front().place.rendezvous;
      fork_.settings["rendezvous"] = place.substr(0, place.rfind(':'));
    }
    fork_.settings["wait_policy"] = wait_policy(members_.front().plan.worker);
    fork_.settings.try_emplace("confined_by", confined_by());
    fork_.variables = own_variables(members_.front().plan.worker, context_.settings);
    answer_ = std::move(result);
  }

  // What the worker measured.
  bool measure() {
    if (timed()) take_clock(fork_, cell_, members_, answer_, results_);
    if (is_apart_) note_unlike_libraries(fork_, results_);
    reject_uncompiled(fork_, cell_);
    if (timed() && context_.threads) {
      fork_.flags.emplace_back(quality_flag::fewer_threads);
      fork_.settings["fewer_threads"] = std::to_string(*context_.threads);
    }
    if (starts_ && is_ok()) reject_changed_backend(fork_, *cell_.backend, outcome_.backend);
    return is_ok();
  }

  // Chosen now, so that the worker could not know it while it was timed. Its program was examined after the first fork,
  // and is at least once more.
  void choose_exam() {
    const bool due = !worker_->examined_again && round_ + 1 >= context_.settings.forks;
    fork_.examined = set_ && (!fork_.resident || context_.settings.examine_all || due ||
                              chosen_of_later_forks(std::random_device()()));
    worker_->examined_again = worker_->examined_again || (fork_.resident && fork_.examined);
  }

  bool examine() {
    choose_exam();
    if (timed() && fork_.examined) {
      audit_ = ask_about_run(cell_, fork_, members_.front().folder, context_);
      write_audits();
    }
    if (timed() && !say_last_commands()) return false;
    if (fork_.examined)
      judge_exam();
    else if (const std::string changed = timed() ? changed_file(members_) : ""; !changed.empty())
      end_with(fork_, ReasonCode::exam_changed, changed);
    if (is_ok() && !fork_.examined) reject_unlike_ranks(fork_, outcome_.verified);
    return is_ok();
  }

  // The exchange, and steps on the device alone, come after the exam, because they leave other results.
  bool say_last_commands() {
    std::vector<Command> at_last;
    if (fork_.examined) at_last.push_back({Verb::verify});
    if (exchange_is_timed(cell_, context_)) at_last.push_back({Verb::exchange});
    if (device_is_timed(cell_, context_)) at_last.push_back({Verb::time_device});
    ConversationResult last = say(at_last, at_end());
    take_ending(fork_, last);
    if (last.ok()) take_last_times(fork_, results_);
    return last.ok();
  }

  void judge_exam() {
    const Clock::time_point begin = Clock::now();
    outcome_.verified = judged(cell_, *set_, [this] {
      if (timed()) compute_audit(audit_, cell_, fork_, members_.front().folder, context_);
      return answers_of(members_, audit_);
    });
    explain_precision(outcome_.verified, fork_, cell_);
    warn_of_wider_precision(fork_, outcome_.verified, cell_);
    reject_infinite_parameters(fork_, outcome_.verified);
    if (is_ok()) reject_unlike_ranks(fork_, outcome_.verified);
    if (is_ok()) resolve_exam(fork_, outcome_.verified, changed_file(members_));
    spent_.judge += seconds_since(begin);
  }

  void write_audits() const {
    for (const Member& member : members_) write_audit(member.folder, audit_);
  }

  void name_what_is_left() {
    const bool removed =
        !context_.keep_folders && !folders_.cell.empty() && !(resident_ && resident_->has_value());
    if (const std::string left = removed ? what_is_left(folders_) : ""; !left.empty())
      fork_.warnings.push_back(
          fmt::format("{}; remove it by hand, as its owner or as root (chattr -R -ia, rm -r)", left));
  }

  const Cell& cell_;
  const FolderPurpose purpose_;
  const int round_;
  const ForkContext& context_;
  std::optional<ResidentWorker>* const resident_;
  ForkOutcome outcome_;
  Fork& fork_ = outcome_.fork;
  TimeSpent spent_;      // in this process
  bool stays_ = false;   // the worker, for the next fork
  bool starts_ = false;  // a new worker
  const PreparedDataset* data_ = nullptr;
  const SetExam* set_ = nullptr;  // null: no exam
  WorkerFolders folders_;
  std::unique_ptr<ForkFolders> own_;  // until a worker has them
  std::optional<ResidentWorker> worker_;
  std::unique_ptr<Launch> launch_;  // until the worker has it
  bool is_apart_ = false;           // a rank is on another machine
  std::vector<Member> members_;
  std::vector<ConversationResult> results_;  // of the ranks, to the last commands
  ConversationResult answer_;                // to the first commands
  RunAudit audit_;
};

}  // namespace

ForkOutcome check_cell(const Cell& cell, const ForkContext& context) {
  return ForkRun(cell, FolderPurpose::check, 0, context, nullptr).take();
}

ForkOutcome time_cell(const Cell& cell, int round, const ForkContext& context,
                      std::optional<ResidentWorker>* resident) {
  return ForkRun(cell, FolderPurpose::run, round, context, resident).take();
}

}  // namespace assay

#include "harness/conductor/fork/exams.hpp"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/fork/fork_context.hpp"
#include "harness/conductor/fork/fork_folders.hpp"
#include "harness/conductor/fork/oracle_need.hpp"
#include "harness/conductor/fork/published_weights.hpp"
#include "harness/conductor/fork/run_question.hpp"
#include "harness/conductor/fork/worker_plan.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/machine/memory.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using protocol::Command;
using protocol::Verb;

// Not remembered as a failure: the next cell may ask again.
struct OracleInterrupted : Error {
  using Error::Error;
};

// The oracle answers in its own conversation; its failure is reported as the oracle's, not the cell's.
void ask_oracle(const Cell& cell, const BackendDescription& oracle, const fs::path& folder,
                const ForkContext& context) {
  // The system would end it, or other processes.
  if (const std::string why = why_too_large(oracle_need(cell), available_memory()); !why.empty())
    throw Error(why);
  Cell own = cell;
  own.axes.loader_workers = 0;
  const ForkFolders folders(context.scratch, "oracle", context.keep_folders);
  const ConversationPlan plan =
      plan_for(own, oracle, {folder, folders.both().temporary}, {Command{Verb::oracle}}, context);
  const ConversationResult result = converse(plan, context.watch);
  if (result.status == Status::interrupted) throw OracleInterrupted(result.reason);
  if (!result.ok())
    throw Error(fmt::format("the oracle '{}' did not answer: {}", oracle.name, result.reason));
}

const BackendDescription& oracle_of(const ForkContext& context) {
  const BackendDescription* oracle = context.registries.backends.oracle();
  if (!oracle)
    throw Error("no oracle is available; build the backend whose backend.json has \"oracle\": true");
  return *oracle;
}

OracleCache::Answers answers_to(const OracleQuestion& question, const Cell& cell, const fs::path& folder,
                                const ForkContext& context) {
  const BackendDescription& oracle = oracle_of(context);
  const OracleWorker worker{oracle.name, oracle.modes.front(), oracle.command, cell.axes.threads};
  return OracleCache().answers(question, *cell.program, worker, folder,
                               [&](const fs::path& at) { ask_oracle(cell, oracle, at, context); });
}

std::string key_of(const ExamPlan& plan, const Program& program) {
  return sha256(fmt::format("{} {} {} {} {} {} {} {}", plan.seed, plan.distinct, plan.resident, plan.ranks,
                            plan.of_run, to_string(plan.task), to_string(plan.precision),
                            to_json(program).dump()));
}

// A cell without training starts from the state of its exam, so that the program that was timed is the one that is
// examined, even if its weights are constants. The user's weights are part of that state. The constants of an imported
// network are what its file has in every exam.
void put_weights_into(const fs::path& exam, const Cell& cell, const ForkContext& context) {
  const bool constants = cell.axes.task == Task::train;
  if (cell.axes.is_op() || (constants && (!cell.network().workload->imported ||
                                          cell.network().workload->imported->constants.empty())))
    return;
  std::vector<HostTensor> state = read_safetensors(exam / "state.safetensors");
  if (constants)
    context.weights->put_constants_into(state, cell.axes.workload);
  else
    context.weights->put_into(state, cell.axes.workload);
  write_safetensors(exam / "state.safetensors", state);
}

struct Drawn {
  SetExam set;
  OracleCache::Answers answers;
};

Drawn answered(const Cell& cell, const ExamPlan& plan, const fs::path& folder, const ForkContext& context) {
  oracle_of(context);  // before anything is written
  write_exam(folder / "check", *cell.program, plan);
  if (context.weights != nullptr) put_weights_into(folder / "check", cell, context);
  const OracleQuestion question{folder / "check", plan.task, plan.precision, perturbations,
                                slices_of(*cell.program, plan.ranks)};
  const OracleCache::Answers answers = answers_to(question, cell, folder / "oracle", context);
  take_moved_biases(question.exam, answers.file);
  SetExam set{.exam = {question.exam, answers.file, plan.task, plan.precision},
              .settings = {.seed = plan.seed,
                           .distinct = read_exam_batches(question.exam / "batches.json").distinct,
                           .perturbations = perturbations,
                           .version = check_version,
                           .oracle_cached = answers.cached},
              .digests = digests_of(question.exam),
              .answers_digest = sha256_of_file(answers.file)};
  const Looseness found = looseness(set.exam, *cell.program);
  set.settings.loosest = found.bound;
  set.settings.loosest_gradient = found.parameter;
  return {std::move(set), answers};
}

constexpr int max_draws = 4;

// Draws exams until one is sharp, and keeps only the files of the sharpest: those of a large network take gigabytes. An
// exam is blunt if an element of a ReLU is within rounding of zero, which is rare in fp32 and always happens with
// narrower storage. A note says later which one it is, and no other is made then.
SetExam draw_exam(const Cell& cell, std::uint64_t seed, bool timed, const fs::path& folder,
                  const ForkContext& context) {
  const int draws = cell.axes.precision == PrecisionKind::fp32 ? max_draws : 1;
  const OracleCache cache;
  const std::string name =
      sha256(fmt::format("{} {}", check_version, key_of(exam_plan(cell, seed, timed), *cell.program)));
  const auto drawn = [&](int draw) {
    return answered(cell, exam_plan(cell, seed, timed, draw), folder / std::to_string(draw), context);
  };
  if (const auto noted = cache.sharpest_draw(name); noted && *noted < draws) return drawn(*noted).set;
  std::optional<Drawn> sharpest;
  int number = 0;
  for (int draw = 0; draw < draws; ++draw) {
    Drawn one = drawn(draw);
    if (!sharpest) {
      sharpest = std::move(one);
    } else {
      int blunt = draw;
      if (one.set.settings.loosest < sharpest->set.settings.loosest) {
        std::swap(*sharpest, one);
        std::swap(number, blunt);
      }
      fs::remove_all(folder / std::to_string(blunt));
      OracleCache::forget(one.answers);
      cache.note_sharpest_draw(name, number);
    }
    if (sharpest->set.settings.loosest <= loose_bound) break;
  }
  return std::move(sharpest->set);
}

}  // namespace

ExamPlan exam_plan(const Cell& cell, std::uint64_t seed, bool timed, int draw) {
  const bool resident = cell.axes.loader == LoaderKind::resident && cell.measure.epochs == 0;
  // Different from the seeds of all other rounds.
  return {.seed = seed + static_cast<std::uint64_t>(draw) * 1'000'003,
          .distinct = cell.distinct,
          .resident = resident || cell.axes.is_op() ? cell.measure.resident_batches : 0,
          .task = cell.axes.task,
          .precision = cell.axes.precision,
          .ranks = cell.axes.ranks(),
          .turn = seed,
          .of_run = timed && has_run_results(*cell.program, cell.axes.task)};
}

const SetExam& Exams::of(const Cell& cell, std::uint64_t seed, bool timed, const ForkContext& context) {
  const std::string key = key_of(exam_plan(cell, seed, timed), *cell.program);
  const std::lock_guard lock(mutex_);
  auto found = kept_.find(key);
  if (found == kept_.end()) {
    Kept kept;
    try {
      kept.set = draw_exam(cell, seed, timed, folder_ / std::to_string(kept_.size()), context);
    } catch (const OracleInterrupted&) {
      throw;
    } catch (const std::runtime_error& error) {
      kept.failure = error.what();
    }
    found = kept_.emplace(key, std::move(kept)).first;
  }
  if (!found->second.set) throw Error(found->second.failure);
  return *found->second.set;
}

RunResults Exams::ask_of_run(const Cell& cell, const Fork& fork, const fs::path& cell_folder) {
  const fs::path folder = folder_ / "run";
  fs::remove_all(folder);
  return question_of_run(cell, fork, cell_folder, folder / "check",
                         secret_ + static_cast<std::uint64_t>(fork.round));
}

void Exams::answer(RunResults& asked, const Cell& cell, const ForkContext& context) {
  // A network has the weights of its exam, whose perturbed runs show how far roundings take its results. A single op has
  // no weights, and its operands may round otherwise than those of the exam.
  const int runs = cell.program->is_op() ? perturbations : 0;
  const OracleQuestion question{asked.exam, cell.axes.task, cell.axes.precision, runs};
  const std::lock_guard lock(mutex_);
  asked.answers = answers_to(question, cell, asked.exam.parent_path() / "oracle", context).file;
}

std::map<std::string, std::string> digests_of(const fs::path& folder, std::uintmax_t max_bytes) {
  std::map<std::string, std::string> digests;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && entry.file_size() <= max_bytes)
      digests[entry.path().filename().string()] = sha256_of_file(entry.path());
  return digests;
}

}  // namespace assay

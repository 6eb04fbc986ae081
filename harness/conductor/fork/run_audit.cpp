#include "harness/conductor/fork/run_audit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/check/expected_tensors.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/check/tolerance.hpp"
#include "harness/conductor/fork/exams.hpp"
#include "harness/conductor/fork/replays.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t max_handed_bytes = std::int64_t{256} << 20;

bool draws_masks(const Cell& cell) { return cell.program->draws_masks(cell.axes.task); }

fs::path handed_state(const fs::path& folder) { return folder / "results/state.safetensors"; }

TensorFile read_handed_state(const fs::path& folder) {
  return TensorFile::read_foreign(handed_state(folder), 2 * max_handed_bytes);
}

struct HandedState {
  std::string contradiction{};  // why it is not the state whose digest the worker reported; empty if it is
  std::string not_finite{};     // a tensor; empty if all are finite
};

HandedState judged_state(const fs::path& folder, const Program& program, const std::string& digest) {
  std::map<std::string, Shape> expected;
  for (const StateTensor& tensor : state_tensors(program)) expected[tensor.name] = tensor.shape;
  HandedState judged;
  try {
    const TensorFile state = read_handed_state(folder);
    if (state.names().size() != expected.size()) return {"it has other tensors than the program"};
    Sha256 sum;
    for (const auto& [name, shape] : expected) {
      const TensorType type{DType::f32, shape};
      if (const std::string refusal = state.mistyped(name, type); !refusal.empty())
        return {fmt::format("{} {}", name, refusal)};
      if (judged.not_finite.empty() && !state.refusal(name, type).empty()) judged.not_finite = name;
      sum.add(name);
      sum.add(std::span<const std::byte>(state.find(name)->bytes));
    }
    if (sum.finish() != digest) return {"its digest is not the one that the worker reported"};
    return judged;
  } catch (const Error& error) {
    return {error.what()};
  }
}

// The evaluations after the last epoch, the smallest first.
std::vector<Evaluation> last_evaluations(const Fork& fork) {
  std::vector<Evaluation> last;
  for (const Evaluation& evaluation : fork.evaluations)
    if (evaluation.epoch == fork.evaluations.back().epoch) last.push_back(evaluation);
  std::ranges::sort(last, {}, &Evaluation::samples);
  return last;
}

void add_first_steps(RunAudit& audit, const Cell& cell, const Fork& fork, const ForkContext& context) {
  const Precision precision = precision_of(cell.axes.precision);
  const std::vector<ReportedLoss> reported = replayable(fork.blocks);
  if (reported.empty() || draws_masks(cell) || slices_of(*cell.program, cell.axes.ranks()) > 1) return;
  std::vector<std::int64_t> steps;
  for (const ReportedLoss& one : reported) steps.push_back(one.steps);
  const std::vector<double> losses = context.replays->first_losses(cell, fork.seed, steps, context);
  const auto is_replayed = [&](const ReportedLoss& one) {
    return one.steps <= static_cast<std::int64_t>(losses.size());
  };
  const auto judge = [&](const ReportedLoss& one, double spread) -> std::optional<Replayed> {
    const double computed = losses[static_cast<std::size_t>(one.steps - 1)];
    const auto allowed = allowed_of_replay(losses[0], computed, spread, precision);
    if (!allowed) return std::nullopt;
    return Replayed{fmt::format("replay/{}", one.steps), one.loss, computed, *allowed};
  };
  for (const ReportedLoss& one : reported) {
    if (!is_replayed(one)) break;
    std::optional<Replayed> found = judge(one, 0);
    // Most runs need no allowance for the growth of roundings, and measuring it takes further replays. Where single events
    // part two runs, one of these may have met none.
    for (int nudges = 1; found && !found->within() && nudges <= max_nudged_replays; ++nudges) {
      const std::vector<double> spread = context.replays->spread(cell, fork.seed, steps, nudges, context);
      const auto at = static_cast<std::size_t>(one.steps - 1);
      // Empty if the replay has become too slow since: then the loss is not judged.
      found = at < spread.size() ? judge(one, spread[at]) : std::nullopt;
    }
    if (found) audit.replayed.push_back(*found);
  }
}

// The first step of the continuation; absent if it has none, or none on a batch of the run.
std::optional<Replays::NextStep> next_step(const Cell& cell, const Fork& fork, const fs::path& check) {
  if (!fs::exists(check / "continuation.json") || draws_masks(cell) ||
      cell.axes.loader != LoaderKind::resident || cell.measure.epochs > 0)
    return std::nullopt;
  std::int64_t steps = 0;
  for (const Block& block : fork.blocks) steps += block.steps;
  return Replays::NextStep{.slot = read_exam_batches(check / "batches.json").slots.front(),
                           .learning_rate = TensorFile::read_array(check / "schedule.npy").at(2),
                           .number = steps + 1};
}

struct EndsWorker {
  Replays& replays;
  ~EndsWorker() { replays.end_worker(); }
};

// What follows from the state that the run left.
void add_from_state(RunAudit& audit, const Cell& cell, const Fork& fork, const fs::path& folder,
                    const ForkContext& context) {
  const bool narrow = is_narrow(precision_of(cell.axes.precision));
  const std::vector<Evaluation> evaluations = last_evaluations(fork);
  const std::optional<Replays::NextStep> next = next_step(cell, fork, folder / "check");
  if (evaluations.empty() && !next) return;
  Replays::FromState computed =
      context.replays->from_state(cell, fork.seed, handed_state(folder), next, evaluations, context);
  if (computed.loss) {
    audit.next_loss = {"continuation/loss", 0, *computed.loss,
                       (narrow ? 0.02 : 2e-4) * std::max(*computed.loss, 0.1)};
    audit.next_state = {read_handed_state(folder), std::move(computed.after), *computed.loss};
    audit.nudged_step = [&cell, &context, seed = fork.seed, state = handed_state(folder),
                         step = *next](int number) -> std::optional<SteppedState> {
      const EndsWorker at_end{*context.replays};
      try {
        return context.replays->nudged_step(cell, seed, state, step, number, context);
      } catch (const Error&) {
        return std::nullopt;  // then the first step decides
      }
    };
  }
  for (const Evaluation& here : evaluations) {
    const auto found = std::ranges::find(computed.evaluations, here.split, &Evaluation::split);
    if (found == computed.evaluations.end()) continue;
    const std::string name = fmt::format("evaluation/{}/", to_string(here.split));
    const double few = 3 / static_cast<double>(std::max<std::int64_t>(1, here.samples));
    audit.replayed.push_back(
        {name + "loss", here.loss, found->loss, (narrow ? 0.02 : 1e-3) * std::max(found->loss, 0.01)});
    audit.replayed.push_back(
        {name + "accuracy", here.accuracy, found->accuracy, few + (narrow ? 0.01 : 1e-3)});
  }
}

}  // namespace

bool hands_over(const Cell& cell) {
  if (!cell.check || !cell.has_loss()) return false;
  // Of several ranks the first one evaluates, and a step is not made again.
  if (cell.axes.ranks() > 1 && cell.measure.epochs == 0) return false;
  return state_bytes(*cell.program) <= max_handed_bytes;
}

std::optional<ExamExcerpt> choose_excerpt(const Program& program, const fs::path& check) {
  if (!fs::exists(check / "continuation.json") && !fs::exists(check / "masks.safetensors"))
    return std::nullopt;
  return excerpt_of(state_bytes(program), std::random_device()());
}

RunAudit ask_about_run(const Cell& cell, const Fork& fork, const fs::path& folder,
                       const ForkContext& context) {
  RunAudit audit;
  // Kernels of our own and plain libraries sum in a fixed order on a CPU; MXNet does not, and no framework or runtime
  // promises it.
  audit.deterministic = cell.axes.deterministic && cell.axes.device == DeviceKind::cpu &&
                        !is_product(cell.backend->kind_of(cell.axes.mode));
  audit.own_loader = cell.has_loss() && cell.axes.loader == LoaderKind::native;
  audit.draws_masks = draws_masks(cell);
  if (has_run_results(*cell.program, cell.axes.task))
    audit.results = context.exams.ask_of_run(cell, fork, folder);
  audit.excerpt = choose_excerpt(*cell.program, folder / "check");
  return audit;
}

void compute_audit(RunAudit& audit, const Cell& cell, Fork& fork, const fs::path& folder,
                   const ForkContext& context) {
  if (audit.results) context.exams.answer(*audit.results, cell, context);
  if (!cell.has_loss() || context.replays == nullptr) return;
  const EndsWorker at_end{*context.replays};
  try {
    if (hands_over(cell) && (fork.round == 0 || chosen_of_later_forks(std::random_device()()))) {
      const std::string& digest =
          fork.ranks.empty() ? fork.parameters_digest : fork.ranks.front().parameters_digest;
      const HandedState handed = judged_state(folder, *cell.program, digest);
      audit.state = handed.contradiction;
      audit.not_finite = handed.not_finite;
      if (audit.state.empty() && audit.not_finite.empty()) add_from_state(audit, cell, fork, folder, context);
    }
    add_first_steps(audit, cell, fork, context);
  } catch (const Error& error) {
    fork.warnings.push_back(fmt::format("no other backend computed this run again: {}", error.what()));
  }
}

}  // namespace assay

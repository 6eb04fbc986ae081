#include "harness/conductor/check/equivalence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "harness/conductor/check/dropout_judge.hpp"
#include "harness/conductor/check/expected_tensors.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/check/rank_exam.hpp"
#include "harness/conductor/check/self_judge.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/error.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// The oracle ran each distinct sample only once. Repeats `samples`, of one batch or of all batches one after
// the other, to the rows of the worker.
std::vector<double> expanded(std::span<const double> samples, const ExamBatches& batches,
                             std::int64_t count) {
  const auto distinct = static_cast<std::size_t>(batches.distinct);
  const std::size_t row = samples.size() / (distinct * static_cast<std::size_t>(count));
  std::vector<double> rows;
  rows.reserve(row * batches.row_of.size() * static_cast<std::size_t>(count));
  for (std::size_t batch = 0; batch < static_cast<std::size_t>(count); ++batch) {
    for (const std::int64_t sample : batches.row_of) {
      const auto begin = samples.begin() + static_cast<std::ptrdiff_t>(
                                               (batch * distinct + static_cast<std::size_t>(sample)) * row);
      rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(row));
    }
  }
  return rows;
}

// The root of a negative mean of squares is not finite, so it is beyond measure.
void take_roots(std::vector<double>& squares) {
  for (double& value : squares) value = std::sqrt(value);
}

// A framework may keep the decay of a mean of squares in fp32, and subtract it from 1 there: 0.999 makes the share
// of a new square 1.3e-5 smaller, as in PyTorch's fused optimizers on a GPU. The largest relative change of the
// root.
double change_by_rounded_decay(const OptimizerSpec& optimizer) {
  const double decay = optimizer.square_decay(), rounded = static_cast<float>(decay);
  return std::abs(rounded - decay) / (1 - decay) / 2;
}

constexpr double own_size = 1;  // a relative L2 error: of the tensor itself

// Which ties a run crosses is chance, and two pairs of runs show what they change only roughly.
constexpr double tie_factor = 3;

// A gradient that is zero in every element, such as that of a norm over one element, is nothing but rounding in any other
// order of its sums: some roundings of operands near one, times the 1 / sqrt(epsilon) of a norm (300 for 1e-5).
constexpr double zero_gradient_roundings = 2000;

bool is_zero(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return value == 0; });
}

ErrorNorms errors_seen(const TensorFile& oracle, const std::string& name) {
  const std::vector<double> seen = oracle.required("bound/" + name);
  if (seen.size() != 2)
    throw CellError(fmt::format("[check] bound/{} of the oracle has {} elements, not 2", name, seen.size()));
  return {seen[0], seen[1]};
}

// The bound of an answer, with what elements on the other side of a tie may change on top.
Bound bound_of_answer(const TensorFile& oracle, const std::string& name, std::span<const double> exact,
                      const Precision& precision, double repeats, bool of_rounding = false) {
  Bound bound = bound_of(errors_seen(oracle, name), exact, precision, repeats, of_rounding);
  if (name.starts_with("gradient/") && is_zero(exact)) {
    const double allowed = zero_gradient_roundings * unit_roundoff(precision.storage);
    bound.max = std::max(bound.max, allowed);
    bound.l2 = std::max(bound.l2, allowed * std::sqrt(static_cast<double>(exact.size())));
  }
  if (oracle.find("flips/" + name) == nullptr) return bound;
  const std::vector<double> flips = oracle.required("flips/" + name);
  bound.max += tie_factor * flips.at(0);
  bound.l2 += tie_factor * flips.at(1);
  return bound;
}

// How often the perturbed runs were on another side of a kink.
std::vector<Ties> ties_of(const TensorFile& oracle) {
  std::vector<Ties> all;
  for (const std::string& name : oracle.names()) {
    if (!name.starts_with("ties/")) continue;
    const std::vector<double> counts = oracle.required(name);
    all.push_back(
        {name.substr(5), static_cast<std::int64_t>(counts.at(0)), static_cast<std::int64_t>(counts.at(1))});
  }
  return all;
}

// The maximum size of a file with these tensors; adds a margin for the header and the other judged tensors.
std::uint64_t max_file_bytes(const std::vector<ExpectedTensor>& tensors, const Program& program,
                             const RunAudit& audit) {
  std::uint64_t bytes = 0;
  for (const ExpectedTensor& tensor : tensors)
    bytes += static_cast<std::uint64_t>(TensorType{DType::f32, tensor.shape}.bytes());
  // Those of the run have the same names, with other batches.
  if (audit.results) bytes *= 2 + std::max<std::uint64_t>(1, audit.results->slots.size());
  // Two programs with dropout hand over all that they computed, of a network in the place of a continuation.
  if (program.is_op()) bytes *= 3;
  return bytes + max_continuation_bytes(program) + (std::uint64_t{64} << 20);
}

void add_failure(Equivalence& result, const std::string& name, const std::string& words) {
  result.tensors.push_back(beyond_all_measure(name));
  if (result.reason.empty()) result.reason = fmt::format("{} {}", name, words);
}

std::string words_for(const TensorVerdict& worst) {
  return fmt::format("{}: largest error {:.3g} (allowed: {:.3g}), relative L2 error {:.3g} (allowed: {:.3g})",
                     worst.name, worst.max_error, worst.max_bound, worst.l2_error, worst.l2_bound);
}

// The verdict over all tensors, with a description of the worst one.
void conclude(Equivalence& result) {
  result.checked = true;
  std::size_t wrong = 0;
  const TensorVerdict* worst = nullptr;
  for (const TensorVerdict& tensor : result.tensors) {
    if (!(tensor.ratio <= 1)) ++wrong;
    if (worst == nullptr || tensor.ratio > worst->ratio) worst = &tensor;
  }
  if (worst != nullptr) result.worst = worst->ratio;
  result.passed = wrong == 0 && worst != nullptr && result.reason.empty();
  if (result.passed) return;
  if (result.reason.empty() && worst != nullptr) result.reason = words_for(*worst);
  result.reason += fmt::format(" ({} of {} tensors are wrong)", wrong, result.tensors.size());
}

// The parameters whose gradient is zero except for rounding, such as a bias before a batch norm.
std::set<std::string> noisy_parameters(const TensorFile& oracle, const Program& program,
                                       const Precision& precision) {
  std::set<std::string> noisy;
  for (const ValueId id : program.inference.with_role(Role::parameter)) {
    const std::string& name = program.inference.value(id).name;
    const std::vector<double> seen = oracle.required("bound/gradient/" + name);
    if (is_only_rounding({seen.at(0), seen.at(1)}, oracle.required("gradient/" + name), precision))
      noisy.insert(name);
  }
  return noisy;
}

}  // namespace

namespace {

// The exam with what its answers are compared with.
struct Questions {
  const Exam& exam;
  const Program& program;
  std::size_t ranks = 1;
  TensorFile oracle = TensorFile::read(exam.answers);
  TensorFile start = TensorFile::read(exam.folder / "state.safetensors");
  ExamBatches batches = read_exam_batches(exam.folder / "batches.json");
  Precision precision = precision_of(exam.precision);
  std::vector<ExpectedTensor> tensors =
      expected_tensors(program, exam.task, batches, fs::exists(exam.folder / "extreme.safetensors"));
  std::set<std::string> noisy =
      program.trains(exam.task) ? noisy_parameters(oracle, program, precision) : std::set<std::string>();

  std::vector<double> exact(const ExpectedTensor& expected) const {
    std::vector<double> values = oracle.required(expected.name);
    if (!expected.rows) return values;
    std::vector<double> rows = expanded(values, batches, exam.task != Task::train ? batches.count() : 1);
    if (expected.of_first_rank) rows.resize(rows.size() / ranks);  // its rows are the first ones
    return rows;
  }
};

TensorVerdict compared(const Questions& asked, const ExpectedTensor& expected, const TensorFile& worker) {
  std::vector<double> exact = asked.exact(expected), got = worker.required(expected.name);
  if (expected.square) {
    take_roots(exact);
    take_roots(got);
  }
  if (exact.size() != got.size()) {
    throw CellError(fmt::format("[check] {}: {} has another shape than the program requires",
                                asked.exam.answers.string(), expected.name));
  }
  Bound bound = bound_of_answer(asked.oracle, expected.name, exact, asked.precision,
                                expected.summed ? asked.batches.repeats() : 1,
                                asked.noisy.contains(expected.parameter));
  if (expected.square)
    bound = widened(bound, change_by_rounded_decay(asked.program.optimizer.value()), exact);
  return compare(expected.name, got, exact, bound);
}

// The rows of `all`, (batches, rows of the program's batch, ...), that are judged.
std::vector<double> rows_of(const std::vector<double>& all, std::size_t batches, std::size_t batch,
                            const std::vector<std::int64_t>& rows) {
  const std::size_t size = all.size() / (batches * batch);
  std::vector<double> chosen;
  for (std::size_t b = 0; b < batches; ++b) {
    for (const std::int64_t row : rows) {
      const auto begin =
          all.begin() + static_cast<std::ptrdiff_t>((b * batch + static_cast<std::size_t>(row)) * size);
      chosen.insert(chosen.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
    }
  }
  return chosen;
}

// One of the equal parts of each row: a position.
std::vector<double> part_of_rows(std::span<const double> rows, std::size_t count, std::size_t part,
                                 std::size_t parts) {
  const std::size_t row = rows.size() / count, kept = row / parts;
  std::vector<double> found;
  for (std::size_t r = 0; r < count; ++r) {
    const std::span<const double> values = rows.subspan(r * row + part * kept, kept);
    found.insert(found.end(), values.begin(), values.end());
  }
  return found;
}

// Whether a worker hands over the results of a step that were read.
bool hands_over_read(const Program& program, Task task, std::size_t positions) {
  std::int64_t elements = 0;
  for (const ExpectedTensor& tensor : expected_tensors(program, task, {.slots = {0}}, false))
    if (!tensor.name.starts_with("running/")) elements += TensorType{DType::f32, tensor.shape}.elements();
  return elements / static_cast<std::int64_t>(positions) <= max_read_elements;
}

// The largest errors of the oracle's runs, for results of a network on other inputs with the same weights.
ErrorNorms carried_over(const TensorFile& exam, const std::string& name, std::span<const double> exact) {
  const std::vector<double> examined = exam.required(name);
  ErrorNorms seen = errors_seen(exam, name);
  const double scale = largest(examined);
  if (scale > 0) seen.max *= largest(exact) / scale;
  return seen;
}

// "run/last/<result>", "run/read/<result>" and "run/<result>": RunResults.
std::vector<TensorVerdict> judge_run(const Questions& questions, const TensorFile& worker,
                                     const RunResults& run) {
  const Program& program = questions.program;
  const Task task = questions.exam.task;
  const Precision& precision = questions.precision;
  const TensorFile oracle = TensorFile::read(run.answers);
  const ExamBatches asked = read_exam_batches(run.exam / "batches.json");
  const auto count = static_cast<std::size_t>(asked.count());
  const auto batch = static_cast<std::size_t>(batch_of(program));
  const std::size_t positions = task == Task::decode ? static_cast<std::size_t>(1 + program.generated()) : 1;
  std::vector<TensorVerdict> verdicts;
  const auto add = [&](const std::string& name, const TensorType& type, std::vector<double> exact,
                       std::size_t batches, const std::string& answer) {
    if (!worker.refusal(name, type).empty()) {
      verdicts.push_back(beyond_all_measure(name));
      return;
    }
    const std::vector<double> got = rows_of(worker.required(name), batches, batch, run.rows);
    Bound bound = bound_of_answer(oracle, answer, exact, precision, 1);
    if (!program.is_op()) {  // see Exams::answer()
      const Bound examined = bound_of(carried_over(questions.oracle, answer, exact), exact, precision);
      bound = {std::max(bound.max, examined.max), std::max(bound.l2, examined.l2)};
    }
    verdicts.push_back(compare(name, got, exact, bound));
  };
  ExamBatches again = asked;
  again.slots = run.slots;
  const bool reads = run.read && hands_over_read(program, task, positions);
  for (const ExpectedTensor& expected : expected_tensors(program, task, again, false)) {
    if (expected.name.starts_with("running/")) continue;
    const std::vector<double> exact = oracle.required(expected.name);
    const std::size_t size = exact.size() / count;
    Shape last = expected.shape;
    last.erase(last.begin());
    if (task == Task::decode) last[1] = 1;
    const auto of_step = [&](std::size_t of, std::size_t position) {
      return part_of_rows(std::span(exact).subspan(of * size, size), run.rows.size(), position, positions);
    };
    add("run/last/" + expected.name, {DType::f32, last}, of_step(run.last, positions - 1), 1, expected.name);
    if (reads)
      add("run/read/" + expected.name, {DType::f32, last},
          of_step(run.read->batch, std::min(static_cast<std::size_t>(run.read->token), positions - 1)), 1,
          expected.name);
    if (!run.slots.empty())
      add("run/" + expected.name, {DType::f32, expected.shape}, exact, count, expected.name);
  }
  return verdicts;
}

// Why each of the tensors cannot be judged; empty where it can.
using Refusals = std::vector<std::string>;

Refusals refusals_of(const TensorFile& worker, const std::vector<ExpectedTensor>& tensors,
                     std::size_t ranks) {
  Refusals refusals;
  for (const ExpectedTensor& expected : tensors)
    refusals.push_back(worker.refusal(expected.name, type_of_rank(expected, ranks)));
  return refusals;
}

// A network with a batch norm over two elements turns a rounding into hundreds of percent in a few steps, and how many is
// chance: correct backends are then as far apart as wrong ones.
void leave_out_chaotic(Equivalence& result) {
  const auto loss = std::ranges::find(result.tensors, "last/loss", &TensorVerdict::name);
  if (loss == result.tensors.end() || loss->l2_bound < own_size) return;
  result.unjudged = std::erase_if(result.tensors, [](const TensorVerdict& tensor) {
    return tensor.name.starts_with("last/") && tensor.l2_bound >= own_size && tensor.ratio < beyond_measure;
  });
}

// Whether the masks of all ranks, if there are any, are in the file of the first one.
bool are_joined(const std::vector<ExpectedTensor>& tensors, const std::vector<bool>& skipped) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].draws && skipped[i]) return false;
  return true;
}

// skipped: a tensor that was not joined, because of another rank.
Equivalence judged(const Questions& asked, std::size_t rank, const TensorFile& worker,
                   const Refusals& refusals, const std::vector<bool>& skipped, const RunAudit& audit) {
  Equivalence result;
  for (std::size_t i = 0; i < asked.tensors.size(); ++i) {
    const ExpectedTensor& expected = asked.tensors[i];
    if (!refusals[i].empty())
      add_failure(result, expected.name, refusals[i]);
    else if (!expected.draws && !skipped[i] && (rank == 0 || !expected.of_first_rank))  // draws: below
      result.tensors.push_back(compared(asked, expected, worker));
  }
  leave_out_chaotic(result);
  if (result.reason.empty()) {
    const auto add = [&](std::vector<TensorVerdict> verdicts) {
      std::ranges::move(verdicts, std::back_inserter(result.tensors));
    };
    if (rank == 0 && are_joined(asked.tensors, skipped))
      add(judge_draws(worker, asked.program, asked.exam.task, asked.ranks));
    add(judge_timed_dropout(worker, asked.oracle, asked.start, asked.program, asked.exam.task,
                            asked.precision, asked.batches.repeats(), audit.excerpt));
    if (fs::exists(asked.exam.folder / "continuation.json")) {
      add(judge_continuation(worker, asked.program, asked.precision, asked.noisy, audit.deterministic,
                             audit.excerpt));
      result.not_finite = first_not_finite(worker, asked.program);
    }
    if (!audit.not_finite.empty()) result.not_finite = audit.not_finite;
    if (audit.next_state)
      add(judge_next_state(worker, asked.program, asked.precision, asked.noisy, *audit.next_state,
                           audit.excerpt, audit.nudged_step));
    if (!audit.state.empty())
      add_failure(result, "state", fmt::format("is not that of the run: {}", audit.state));
    add(judge_audit(worker, audit, asked.precision));
    if (audit.results) add(judge_run(asked, worker, *audit.results));
  }
  result.ties = ties_of(asked.oracle);
  conclude(result);
  return result;
}

Equivalence without_answers(const Error& error) {
  Equivalence result;
  add_failure(result, "exam", fmt::format("has no answers: {}", error.what()));
  conclude(result);
  return result;
}

// Names the rank in the reason.
Equivalence of_rank(std::size_t rank, Equivalence result) {
  if (!result.reason.empty()) result.reason = fmt::format("rank {}: {}", rank, result.reason);
  return result;
}

}  // namespace

Equivalence judge(const Exam& exam, const Program& program, const fs::path& worker_file,
                  const RunAudit& audit) {
  const Questions asked{exam, program};
  TensorFile worker;
  try {
    worker = TensorFile::read_foreign(worker_file, max_file_bytes(asked.tensors, program, audit));
  } catch (const Error& error) {
    return without_answers(error);
  }
  return judged(asked, 0, worker, refusals_of(worker, asked.tensors, 1),
                std::vector<bool>(asked.tensors.size()), audit);
}

Equivalence judge(const Exam& exam, const Program& program, const std::vector<RankAnswers>& ranks) {
  if (ranks.size() == 1) return judge(exam, program, ranks.front().file, ranks.front().audit);
  const Questions asked{exam, program, ranks.size()};
  std::vector<TensorFile> files;
  std::vector<Refusals> refusals;
  std::vector<bool> skipped(asked.tensors.size());
  for (const RankAnswers& answers : ranks) {
    try {
      files.push_back(
          TensorFile::read_foreign(answers.file, max_file_bytes(asked.tensors, program, answers.audit)));
    } catch (const Error& error) {
      return of_rank(files.size(), without_answers(error));
    }
    refusals.push_back(refusals_of(files.back(), asked.tensors, ranks.size()));
    for (std::size_t i = 0; i < skipped.size(); ++i) skipped[i] = skipped[i] || !refusals.back()[i].empty();
  }
  join_answers(files, asked.tensors);
  std::optional<Equivalence> result;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Equivalence one =
        of_rank(rank, judged(asked, rank, files[rank], refusals[rank], skipped, ranks[rank].audit));
    result = result ? merged(*result, one) : one;
  }
  return *result;
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
  result.unjudged = std::max(a.unjudged, b.unjudged);
  if (b.settings && (!a.settings || b.settings->loosest > a.settings->loosest)) result.settings = b.settings;
  return result;
}

Looseness looseness(const Exam& exam, const Program& program) {
  Looseness loosest;
  if (!program.trains(exam.task)) return loosest;
  const TensorFile oracle = TensorFile::read(exam.answers);
  const Precision precision = precision_of(exam.precision);
  const double repeats = read_exam_batches(exam.folder / "batches.json").repeats();
  const std::set<std::string> noisy = noisy_parameters(oracle, program, precision);
  for (const ValueId id : program.inference.with_role(Role::parameter)) {
    const std::string& name = program.inference.value(id).name;
    if (noisy.contains(name)) continue;
    const std::vector<double> exact = oracle.required("gradient/" + name);
    const double bound = bound_of_answer(oracle, "gradient/" + name, exact, precision, repeats).l2;
    if (bound > loosest.bound) loosest = {bound, name};
  }
  return loosest;
}

}  // namespace assay

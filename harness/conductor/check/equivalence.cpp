#include "harness/conductor/check/equivalence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "harness/conductor/check/dropout_judge.hpp"
#include "harness/conductor/check/expected_tensors.hpp"
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

// Which ties a run crosses is chance, and two pairs of runs show what they change only roughly.
constexpr double tie_factor = 3;

// The bound of an answer, with what elements on the other side of a tie may change on top.
Bound bound_of_answer(const TensorFile& oracle, const std::string& name, std::span<const double> exact,
                      const Precision& precision, double repeats, bool of_rounding = false) {
  const std::vector<double> seen = oracle.required("bound/" + name);
  if (seen.size() != 2)
    throw CellError(fmt::format("[check] bound/{} of the oracle has {} elements, not 2", name, seen.size()));
  Bound bound = bound_of({seen[0], seen[1]}, exact, precision, repeats, of_rounding);
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
std::uint64_t max_file_bytes(const std::vector<ExpectedTensor>& tensors) {
  std::uint64_t bytes = std::uint64_t{64} << 20;
  for (const ExpectedTensor& tensor : tensors)
    bytes += static_cast<std::uint64_t>(TensorType{DType::f32, tensor.shape}.bytes());
  return bytes;
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
  for (const ValueId id : program.training.with_role(Role::parameter)) {
    const std::string& name = program.training.value(id).name;
    const std::vector<double> seen = oracle.required("bound/gradient/" + name);
    if (is_only_rounding({seen.at(0), seen.at(1)}, oracle.required("gradient/" + name), precision))
      noisy.insert(name);
  }
  return noisy;
}

}  // namespace

Equivalence judge(const Exam& exam, const Program& program, const fs::path& worker_file,
                  const RunAudit& audit) {
  const TensorFile oracle = TensorFile::read(exam.answers);
  const ExamBatches batches = read_exam_batches(exam.folder / "batches.json");
  const Precision precision = precision_of(exam.precision);

  const bool extreme = fs::exists(exam.folder / "extreme.safetensors");
  const std::vector<ExpectedTensor> tensors = expected_tensors(program, exam.task, batches, extreme);
  const bool trains = exam.task == Task::train && !program.is_op();
  const std::set<std::string> noisy =
      trains ? noisy_parameters(oracle, program, precision) : std::set<std::string>();
  Equivalence result;
  TensorFile worker;
  try {
    worker = TensorFile::read_foreign(worker_file, max_file_bytes(tensors));
  } catch (const Error& error) {
    add_failure(result, "exam", fmt::format("has no answers: {}", error.what()));
    conclude(result);
    return result;
  }

  for (const ExpectedTensor& expected : tensors) {
    const std::string refusal = worker.refusal(expected.name, {DType::f32, expected.shape});
    if (!refusal.empty()) {
      add_failure(result, expected.name, refusal);
      continue;
    }
    if (expected.draws) continue;  // judged below
    std::vector<double> exact = oracle.required(expected.name);
    if (expected.rows) {
      const bool all = exam.task != Task::train;
      exact = expanded(exact, batches, all ? batches.count() : 1);
    }
    std::vector<double> got = worker.required(expected.name);
    if (expected.square) {
      take_roots(exact);
      take_roots(got);
    }
    if (exact.size() != got.size()) {
      throw CellError(fmt::format("[check] {}: {} has another shape than the program requires",
                                  exam.answers.string(), expected.name));
    }
    Bound bound =
        bound_of_answer(oracle, expected.name, exact, precision, expected.summed ? batches.repeats() : 1,
                        noisy.contains(expected.parameter));
    if (expected.square) bound = widened(bound, change_by_rounded_decay(program.optimizer), exact);
    result.tensors.push_back(compare(expected.name, got, exact, bound));
  }
  if (result.reason.empty()) {
    std::ranges::move(judge_draws(worker, program, exam.task), std::back_inserter(result.tensors));
    std::ranges::move(judge_timed_dropout(worker, oracle, program, exam.task, precision, batches.repeats()),
                      std::back_inserter(result.tensors));
    if (fs::exists(exam.folder / "continuation.json"))
      std::ranges::move(judge_continuation(worker, program, precision, noisy, audit.deterministic),
                        std::back_inserter(result.tensors));
    std::ranges::move(judge_audit(worker, audit, precision), std::back_inserter(result.tensors));
  }
  result.ties = ties_of(oracle);
  conclude(result);
  return result;
}

Looseness looseness(const Exam& exam, const Program& program) {
  Looseness loosest;
  if (program.is_op() || exam.task != Task::train) return loosest;
  const TensorFile oracle = TensorFile::read(exam.answers);
  const Precision precision = precision_of(exam.precision);
  const double repeats = read_exam_batches(exam.folder / "batches.json").repeats();
  const std::set<std::string> noisy = noisy_parameters(oracle, program, precision);
  for (const ValueId id : program.training.with_role(Role::parameter)) {
    const std::string& name = program.training.value(id).name;
    if (noisy.contains(name)) continue;
    const std::vector<double> exact = oracle.required("gradient/" + name);
    const double bound = bound_of_answer(oracle, "gradient/" + name, exact, precision, repeats).l2;
    if (bound > loosest.bound) loosest = {bound, name};
  }
  return loosest;
}

}  // namespace assay

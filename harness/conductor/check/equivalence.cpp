#include "harness/conductor/check/equivalence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/conductor/check/expected_tensors.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/conductor/check/tolerance.hpp"
#include "harness/conductor/check/update_judge.hpp"
#include "harness/core/error.hpp"
#include "harness/protocol/request.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// The oracle ran the distinct samples alone: row r of the batch is its row row_of[r].
std::vector<double> expanded(std::span<const double> samples, const CheckBatch& batch) {
  const std::size_t row = samples.size() / static_cast<std::size_t>(batch.distinct);
  std::vector<double> rows;
  rows.reserve(row * batch.row_of.size());
  for (const std::int64_t sample : batch.row_of) {
    const auto begin = samples.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(sample) * row);
    rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(row));
  }
  return rows;
}

// What a negative mean of squares would have: not finite, so beyond measure.
void take_roots(std::vector<double>& squares) {
  for (double& value : squares) value = std::sqrt(value);
}

// How often the perturbed runs stood on another side of a kink.
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

void add_failure(Equivalence& result, const std::string& name, const std::string& words) {
  result.tensors.push_back({name, beyond_measure, 0, beyond_measure, 0, beyond_measure});
  if (result.reason.empty()) result.reason = fmt::format("{} {}", name, words);
}

std::string words_for(const TensorVerdict& worst) {
  return fmt::format(
      "{}: largest error {:.3g} where {:.3g} is allowed, relative L2 error {:.3g} where {:.3g} is allowed",
      worst.name, worst.max_error, worst.max_bound, worst.l2_error, worst.l2_bound);
}

// The verdict over all tensors, with the worst in words.
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

}  // namespace

Equivalence judge(const fs::path& cell_folder, const fs::path& oracle_file, std::string_view phase,
                  const Program& program) {
  if (phase != "check" && phase != "verify")
    throw std::invalid_argument(fmt::format("[check] no phase '{}'", phase));
  const TensorFile oracle = TensorFile::read(oracle_file);
  const CheckBatch batch = read_check_batch(cell_folder);
  const CellRequest request = read_request(cell_folder / "request.json");
  const Precision precision = precision_of(request.precision);
  const std::string prefix = std::string(phase) + "/";

  Equivalence result;
  TensorFile worker;
  const fs::path file = cell_folder / "results" / (std::string(phase) + ".safetensors");
  try {
    worker = TensorFile::read(file);
  } catch (const Error& error) {
    add_failure(result, std::string(phase), fmt::format("has no answers: {}", error.what()));
    conclude(result);
    return result;
  }

  const std::int64_t steps =
      static_cast<std::int64_t>(TensorFile::read_array(cell_folder / "check" / "schedule.npy").size()) / 2;
  const std::vector<ExpectedTensor> tensors = expected_tensors(program, request.task, phase, steps);
  for (const ExpectedTensor& expected : tensors) {
    const std::string name = prefix + expected.name;
    const std::string refusal = worker.refusal(expected.name, {DType::f32, expected.shape});
    if (!refusal.empty()) {
      add_failure(result, name, refusal);
      continue;
    }
    if (expected.update || expected.draws) continue;  // judged below, from the worker's own answers
    std::vector<double> exact = oracle.required(expected.answer);
    if (expected.rows) exact = expanded(exact, batch);
    const std::vector<double> seen = oracle.required("bound/" + expected.answer);
    std::vector<double> got = worker.required(expected.name);
    if (expected.square) {
      take_roots(exact);
      take_roots(got);
    }
    if (seen.size() != 2 || exact.size() != got.size()) {
      throw CellError(
          fmt::format("[check] {}: {} has another shape than this program asks", oracle_file.string(), name));
    }
    result.tensors.push_back(
        compare(name, got, exact,
                bound_of({seen[0], seen[1]}, exact, precision, expected.rows ? 1 : batch.repeats())));
  }
  if (std::ranges::any_of(tensors, &ExpectedTensor::update) && result.reason.empty()) {
    for (TensorVerdict& verdict :
         judge_updates(cell_folder, oracle, worker, program, precision, batch.repeats())) {
      result.tensors.push_back(std::move(verdict));
    }
  }
  if (std::ranges::any_of(tensors, &ExpectedTensor::draws) && result.reason.empty()) {
    for (TensorVerdict& verdict : judge_draws(worker, program)) result.tensors.push_back(std::move(verdict));
  }
  if (phase == "check") result.ties = ties_of(oracle);
  conclude(result);
  return result;
}

}  // namespace assay

#include "tests/workloads/checked_cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/reference/reference_backend.hpp"
#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/exam.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/conductor/data/initial_values.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/request.hpp"
#include "harness/worker/exam.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

nlohmann::json read_json(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

// The work of the oracle's worker with the folder.
void answer(const fs::path& folder, int threads) {
  const CellRequest request = read_request(folder / "request.json");
  reference::ReferenceBackend oracle;
  CompileOptions options;
  options.task = request.task;
  options.mode = request.mode;
  options.threads = threads;
  write_oracle_results(
      oracle, program_from_json(read_json(folder / "graph.json")), options,
      {precision_of(request.oracle->precision), request.oracle->perturbations, request.oracle->seed}, folder);
}

// Parameters that are not the check's, and steps on a batch that is not the check's.
void run_as_if_timed(Executable& executable, const Program& program, Task task) {
  if (packs_inputs(program)) {
    const std::int64_t batch = batch_of(program);
    const std::vector<float> operands =
        draw_operands(program.graph(task), 2 * batch, 7, "as if timed", batch);
    for (const std::int64_t slot : {0, 1})
      executable.stage(slot, {operands.data() + slot * input_elements(program.graph(task)), nullptr});
    for (int step = 0; step < 4; ++step) executable.step(step % 2, 0, step + 1);
    return executable.synchronize();
  }
  const TensorType type = program.inference.value(program.inference.with_role(Role::input).at(0)).type;
  HostTensor inputs = HostTensor::zeros("inputs", type);
  for (std::size_t i = 0; i < static_cast<std::size_t>(type.elements()); ++i) {
    const auto value = static_cast<std::int32_t>((i * 7919) % 101);
    if (type.dtype == DType::i32) {
      inputs.as<std::int32_t>()[i] = value;
    } else {
      inputs.as<float>()[i] = static_cast<float>(value) / 50.0f - 1;
    }
  }
  std::vector<std::int32_t> labels;
  for (const ValueId id : program.graph(task).with_role(Role::label))
    labels.assign(static_cast<std::size_t>(program.graph(task).value(id).type.elements()), 1);
  for (const std::int64_t slot : {0, 1}) executable.stage(slot, {inputs.bytes.data(), labels.data()});
  for (int step = 1; step <= 3; ++step) executable.step(step % 2, 1e-3, step);
  executable.synchronize();
}

}  // namespace

const TensorVerdict* Judged::find(std::string_view name) const {
  const auto found = std::ranges::find(exam.tensors, name, &TensorVerdict::name);
  return found == exam.tensors.end() ? nullptr : &*found;
}

std::string Judged::text() const {
  std::string text = exam.passed ? "" : exam.reason + "\n";
  std::vector<TensorVerdict> tensors = exam.tensors;
  std::ranges::sort(tensors, std::greater<>(), &TensorVerdict::ratio);
  for (std::size_t i = 0; i < std::min<std::size_t>(6, tensors.size()); ++i) {
    const TensorVerdict& t = tensors[i];
    text += fmt::format("  {:<40} ratio {:.3g}, max {:.3g} of {:.3g}, l2 {:.3g} of {:.3g}\n", t.name, t.ratio,
                        t.max_error, t.max_bound, t.l2_error, t.l2_bound);
  }
  return text;
}

Judged judge_backend(Backend& backend, const Program& program, const CheckedCell& cell) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "cell";
  const ExamPlan plan{cell.seed, cell.distinct, 2, cell.task, cell.precision};
  write_exam(path / "check", program, plan);
  // Modes, backends and tasks share answers.
  static const TemporaryFolder answered;
  static const OracleCache cache{answered.path()};
  const fs::path oracle =
      cache
          .answers({path / "check", cell.task, cell.precision, 4}, program,
                   {"reference", "graph", {"none"}, cell.threads}, folder.path() / "oracle",
                   [&](const fs::path& at) { answer(at, cell.threads); })
          .file;
  take_moved_biases(path / "check", oracle);

  CompileOptions options;
  options.task = cell.task;
  options.mode = cell.mode;
  options.threads = cell.threads;
  options.precision = precision_of(cell.precision);
  options.deterministic = cell.deterministic;
  const std::unique_ptr<Executable> timed = backend.compile(program, options);
  run_as_if_timed(*timed, program, cell.task);
  write_exam_results(*timed, program, Trained{.last_step = 3}, path);
  Judged judged{judge({path / "check", oracle, cell.task, cell.precision}, program,
                      path / "results/verify.safetensors")};
  const TensorFile answers = TensorFile::read(oracle);
  if (answers.find("last/loss") != nullptr) {
    judged.first_loss = answers.required("first/loss").front();
    judged.last_loss = answers.required("last/loss").front();
  }
  return judged;
}

}  // namespace assay

#include "tests/workloads/checked_cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/reference/reference_backend.hpp"
#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/conductor/data/initial_values.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/request.hpp"
#include "harness/worker/checker.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

nlohmann::json read_json(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

// What the oracle's worker does with the folder.
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
  if (program.is_op()) {
    const std::vector<float> operands = draw_operands(program.graph(task), 2, 7, "as if timed");
    for (const std::int64_t slot : {0, 1})
      executable.stage(slot, {operands.data() + slot * input_elements(program.graph(task)), nullptr});
    for (int step = 0; step < 4; ++step) executable.step(step % 2, 0, step + 1);
    return executable.synchronize();
  }
  const TensorType type = program.training.value(program.training.find("inputs")).type;
  HostTensor inputs = HostTensor::zeros("inputs", type);
  for (std::size_t i = 0; i < static_cast<std::size_t>(type.elements()); ++i) {
    const auto value = static_cast<std::int32_t>((i * 7919) % 101);
    if (type.dtype == DType::i32) {
      inputs.as<std::int32_t>()[i] = value;
    } else {
      inputs.as<float>()[i] = static_cast<float>(value) / 50.0f - 1;
    }
  }
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(type.shape.front()), 1);
  executable.stage(0, {inputs.bytes.data(), labels.data()});
  for (int step = 1; step <= 3; ++step) executable.step(0, 1e-3, step);
  executable.synchronize();
}

}  // namespace

std::string Judged::text() const {
  std::string text;
  for (const Equivalence* phase : {&check, &verify}) {
    if (!phase->passed) text += phase->reason + "\n";
    std::vector<TensorVerdict> tensors = phase->tensors;
    std::ranges::sort(tensors, std::greater<>(), &TensorVerdict::ratio);
    for (std::size_t i = 0; i < std::min<std::size_t>(4, tensors.size()); ++i) {
      const TensorVerdict& t = tensors[i];
      text += fmt::format("  {:<40} ratio {:.3g}, max {:.3g} of {:.3g}, l2 {:.3g} of {:.3g}\n", t.name,
                          t.ratio, t.max_error, t.max_bound, t.l2_error, t.l2_bound);
    }
  }
  return text;
}

Judged judge_backend(Backend& backend, const Program& program, const CheckedCell& cell) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "cell";
  fs::create_directories(path);
  std::ofstream(path / "request.json") << nlohmann::json{
      {"protocol", 1}, {"task", to_string(cell.task)},           {"mode", cell.mode},
      {"batch", 1},    {"precision", to_string(cell.precision)}, {"check", {{"perturbations", 4}}}};
  write_check(path, program, 1, cell.distinct, cell.task);
  const OracleCache no_cache{fs::path()};
  const fs::path oracle =
      no_cache.answers(path, program, {"reference", "graph", "none", cell.threads}, folder.path() / "oracle",
                       [&](const fs::path& at) { answer(at, cell.threads); });

  CompileOptions options;
  options.task = cell.task;
  options.mode = cell.mode;
  options.threads = cell.threads;
  options.precision = precision_of(cell.precision);
  options.check = true;
  write_check_results(*backend.compile(program, options), program, cell.task, path);
  options.check = false;
  const std::unique_ptr<Executable> timed = backend.compile(program, options);
  run_as_if_timed(*timed, program, cell.task);
  write_verify_results(*timed, program, cell.task, path);
  Judged judged{judge(path, oracle, "check", program), judge(path, oracle, "verify", program), {}};
  const TensorFile answers = TensorFile::read(oracle);
  if (answers.find("verify/losses") != nullptr) judged.losses = answers.required("verify/losses");
  return judged;
}

}  // namespace assay

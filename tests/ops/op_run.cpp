#include "tests/ops/op_run.hpp"
#include "tests/backend_under_test.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/config/config.hpp"
#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "harness/worker/backend.hpp"

namespace assay {
namespace {

constexpr std::uint64_t seed = 1;

const Registries& registries(const std::string& name) {
  static const Registries only = [&name] {
    BackendDescription here;
    here.name = name;
    here.kind = BackendKind::engine;
    here.devices = {DeviceKind::cpu};
    here.modes = {"graph"};
    here.tasks = {Task::infer, Task::train};
    here.precisions = {PrecisionKind::fp32};
    here.layouts = {"native"};
    here.loaders = {LoaderKind::resident};
    Registries all;
    all.backends.backends = {here};
    return all;
  }();
  return only;
}

std::unique_ptr<Executable> compiled(const Cell& cell) {
  CompileOptions options;
  options.task = cell.axes.task;
  options.mode = cell.axes.mode;
  options.threads = cell.compute_threads();
  const Program& program = *cell.program;
  auto library = under_test::make_kernel_library(options);
  if (std::string reason = first_unsupported(program, options, *library); !reason.empty())
    throw Unsupported(reason);
  return std::make_unique<KernelExecutable>(program, options, std::move(library));
}

std::filesystem::path written(const std::filesystem::path& folder, Cell cell) {
  cell.check = false;
  DatasetShelf none_needed({});
  write_cell_folder(folder, cell, FolderPurpose::run, seed, "", none_needed);
  return folder;
}

}  // namespace

std::vector<Cell> op_suite(const std::string& backend) {
  const nlohmann::json whole{
      {"workload", "op/*"}, {"backend", backend}, {"mode", "graph"}, {"cache", {"warm", "cold"}}};
  std::vector<Cell> cells = expand(config_from_json(whole, "the operator suite"), registries(backend)).cells;
  std::erase_if(cells, [](const Cell& cell) { return !cell.runnable(); });
  return cells;
}

OpRun::OpRun(const Cell& cell)
    : id_(cell.id),
      executable_(compiled(cell)),
      supply_(written(folder_.path() / "cell", cell)),
      sets_(supply_.layout().resident_batches) {
  std::vector<std::uint32_t> operands(static_cast<std::size_t>(supply_.layout().sample_elements));
  std::int32_t label = 0;
  for (std::int64_t set = 0; set < sets_; ++set) {
    supply_.read_resident(set, operands.data(), &label);
    executable_->stage(set, {operands.data(), &label});
  }
  executable_->set_state({});
  steps(1);  // what a library does on first use
  done_ = 0;
}

void OpRun::steps(std::int64_t steps) {
  for (const std::int64_t end = done_ + steps; done_ < end; ++done_)
    executable_->step(done_ % sets_, 0, done_ + 1);
  executable_->synchronize();
}

std::vector<double> OpRun::timed_blocks() const {
  std::ifstream file(folder_.path() / "cell/results/clock.json");
  const nlohmann::json clock = nlohmann::json::parse(file);
  std::vector<double> seconds;
  for (const nlohmann::json& block : clock.at("blocks")) {
    if (block.at("kind") != "timed") continue;
    seconds.push_back(1e-9 * (block.at("end_ns").get<double>() - block.at("begin_ns").get<double>()));
  }
  return seconds;
}

}  // namespace assay

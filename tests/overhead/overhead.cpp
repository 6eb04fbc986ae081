// The cost of the harness per step: the steps of a run, block by block as the worker's own loop and the batch
// library drive and time them, against step() in a bare loop on the same executable, between those blocks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/core/clock.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/statistics.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "harness/worker/trainer.hpp"
#include "tests/backend_under_test.hpp"
#include "tests/temporary_folder.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

constexpr std::uint64_t seed = 1;

struct Options {
  std::string workload = "mlp", dataset = "synthetic";
  int threads = 2;
  std::int64_t rounds = 100;
  double block_seconds = MeasurePlan{}.block_seconds;
  double warm_up_seconds = MeasurePlan{}.warm_up_seconds;
};

// As `assay run` makes it: mode graph, fp32, resident batches, the workload's own batch and optimizer.
Cell make_cell(const Options& wanted) {
  const Workload& workload = find_workload(wanted.workload);
  Cell cell;
  cell.network().workload = &workload;
  cell.axes.workload = workload.name;
  cell.axes.backend = under_test::backend;
  cell.axes.mode = "graph";
  cell.axes.batch = workload.batch;
  cell.axes.dataset = wanted.dataset;
  cell.axes.optimizer = workload.optimizer.kind;
  cell.axes.threads = wanted.threads;
  cell.axes.measure = "steps";
  cell.measure.blocks = wanted.rounds;
  cell.measure.block_seconds = wanted.block_seconds;
  cell.measure.warm_up_seconds = wanted.warm_up_seconds;
  cell.network().learning_rate = workload.learning_rate;
  cell.check = false;
  cell.program = std::make_shared<const Program>(cell.build());
  return cell;
}

struct Steps {
  std::int64_t count = 0;
  double nanoseconds = 0;
  double each() const { return nanoseconds / static_cast<double>(count); }
};

// step() over the resident slots and one synchronisation.
class BareLoop {
 public:
  BareLoop(Executable& executable, const Cell& cell)
      : executable_(executable), slots_(cell.measure.resident_batches), rate_(cell.network().learning_rate) {}

  Steps run(std::int64_t count) {
    std::int64_t slot = 0;
    const std::int64_t begin = now_ns();
    for (std::int64_t i = 0; i < count; ++i) {
      executable_.step(slot, rate_, ++done_);
      if (++slot == slots_) slot = 0;
    }
    executable_.synchronize();
    return {count, static_cast<double>(now_ns() - begin)};
  }

 private:
  Executable& executable_;
  std::int64_t slots_;
  double rate_;
  std::int64_t done_ = 0;
};

// By block of the run: the bare loop next to it. Blocks and loops go RB BR RB BR ..., so that neither is
// always first.
std::vector<Steps> train_interleaved(Executable& executable, const Cell& cell,
                                     const std::filesystem::path& folder) {
  std::vector<Steps> bare;
  BareLoop loop(executable, cell);
  std::int64_t before = 0, blocks = 0;
  Supply supply(folder);
  train(executable, supply, Timed::training, [&](std::int64_t done, std::int64_t) {
    const std::int64_t count = done - before;
    before = done;
    if (blocks++ % 2 == 1) return;
    bare.push_back(loop.run(count));
    bare.push_back(loop.run(count));
  });
  supply.close();
  return bare;
}

nlohmann::json measure(const Options& wanted) {
  const Cell cell = make_cell(wanted);
  const Program& program = *cell.program;
  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary / "cell";
  DatasetShelf data({});
  write_cell_folder(folder, cell, FolderPurpose::run, seed, "", data);

  CompileOptions options;
  options.mode = cell.axes.mode;
  options.threads = cell.compute_threads();
  KernelExecutable executable(program, options, under_test::make_kernel_library(options));
  executable.set_state(read_safetensors(folder / "parameters.safetensors"));
  const std::vector<Steps> bare = train_interleaved(executable, cell, folder);

  std::ifstream file(folder / "results" / "clock.json");
  const nlohmann::json clock = nlohmann::json::parse(file);
  std::vector<double> ratios, runs, loops;
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < clock.at("blocks").size(); ++i) {
    const nlohmann::json& block = clock["blocks"][i];
    steps = block.at("steps");
    // Between the warm-up and the first timed block the size changes.
    if (block.at("kind") != "timed" || bare.at(i).count != steps) continue;
    const auto nanoseconds =
        block.at("end_ns").get<std::int64_t>() - block.at("begin_ns").get<std::int64_t>();
    runs.push_back(Steps{steps, static_cast<double>(nanoseconds)}.each());
    loops.push_back(bare[i].each());
    ratios.push_back(runs.back() / loops.back());
  }
  if (ratios.empty())
    throw std::runtime_error("[overhead] no round has both a block and a loop: ask for more rounds");

  nlohmann::json result{
      {"backend", under_test::backend}, {"workload", wanted.workload},  {"batch", cell.axes.batch},
      {"threads", options.threads},     {"rounds", ratios.size()},      {"steps_a_block", steps},
      {"bare_us", median(loops) / 1e3}, {"run_us", median(runs) / 1e3}, {"median_ratio", median(ratios)}};
  if (const auto interval = median_interval(ratios)) {
    result["lower"] = interval->lower;
    result["upper"] = interval->upper;
    result["confidence"] = interval->confidence;
  }
  return result;
}

void print(const nlohmann::json& result) {
  const auto number = [&](const char* name) { return result.at(name).get<double>(); };
  fmt::print("{} on {}: {} rounds of {} steps, {:.1f} us a step in a bare loop, {:.1f} us in a run\n",
             result.at("workload").get<std::string>(), under_test::backend, result.at("rounds").get<int>(),
             result.at("steps_a_block").get<std::int64_t>(), number("bare_us"), number("run_us"));
  fmt::print("run / bare: {:.5f}", number("median_ratio"));
  if (result.contains("lower")) {
    fmt::print(", {:.1f} % interval {:.5f} to {:.5f}", 100 * number("confidence"), number("lower"),
               number("upper"));
  }
  fmt::print("\n{}\n", result.dump());
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  assay::Options wanted;
  CLI::App app("Times the steps of a run against step() in a bare loop, interleaved: mode graph, fp32.");
  app.option_defaults()->always_capture_default();
  app.add_option("--workload", wanted.workload, "mlp, lenet5 or cnn");
  app.add_option("--dataset", wanted.dataset, "what the resident batches are of");
  app.add_option("--threads", wanted.threads)->check(CLI::Range(1, 1024));
  app.add_option("--rounds", wanted.rounds, "timed blocks")->check(CLI::Range(2, 1000));
  app.add_option("--block-seconds", wanted.block_seconds)->check(CLI::Range(1e-4, 10.0));
  app.add_option("--warm-up-seconds", wanted.warm_up_seconds)->check(CLI::Range(0.0, 10.0));
  CLI11_PARSE(app, argc, argv);
  try {
    assay::print(assay::measure(wanted));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}

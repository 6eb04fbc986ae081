// What the batch library itself costs: a block, a lap, a batch of LeNet's at each number of threads, an
// evaluation.
#include <cmath>
#include <vector>

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include "harness/batch/manifest.hpp"
#include "harness/batch/session.hpp"
#include "harness/data/epoch_plan.hpp"
#include "harness/data/synthetic.hpp"
#include "harness/io/atomic_file.hpp"
#include "harness/io/npy.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

constexpr std::int64_t batch = 200, samples = 20'000, elements = 784;

// Fashion-MNIST's shape; a fork that counts steps and never ends within a benchmark.
struct Cell {
  TemporaryFolder folder;

  Cell(const char* loader, int workers, const char* task) {
    std::filesystem::create_directories(folder / "data");
    const SyntheticData data = make_synthetic({true, {1, 28, 28}, 10, samples}, "train");
    write_npy(folder / "data/inputs.npy", {DType::u8, {samples, 1, 28, 28}}, std::span(data.inputs));
    write_npy(folder / "data/labels.npy", {DType::u8, {samples}}, std::span(data.labels));
    Manifest manifest;
    manifest.name = "synthetic";
    manifest.sample_shape = {1, 28, 28};
    manifest.classes = 10;
    manifest.scale = {1.0f / 255};
    manifest.splits["train"] = {"data/inputs.npy", "data/labels.npy", 0, samples};
    write_manifest(folder.path(), manifest);
    write_epoch_plans(folder.path(), samples, 1, 1);
    const std::vector<double> schedule = {0.001, 1};
    write_npy(folder / "schedule.npy", {DType::f64, {1, 2}}, std::span(schedule));
    const nlohmann::json request = {{"batch", batch},
                                    {"task", task},
                                    {"loader", {{"kind", loader}, {"workers", workers}, {"prefetch", 4}}},
                                    {"clock",
                                     {{"kind", "steps"},
                                      {"warm_up", {{"min_steps", 1}, {"min_seconds", 0}}},
                                      {"block_seconds", 0},
                                      {"steps", 8'000'000}}}};
    write_atomically(folder / "request.json", request.dump(), false);
  }
};

void block_of_one_resident_step(benchmark::State& state) {
  const Cell cell("resident", 0, "train");
  BatchSession session(cell.folder.path());
  for (auto _ : state) {
    benchmark::DoNotOptimize(session.next_block());
    session.end_block(0);
  }
}
BENCHMARK(block_of_one_resident_step)->Iterations(20'000);

void lap(benchmark::State& state) {
  const Cell cell("resident", 0, "infer");
  BatchSession session(cell.folder.path());
  session.next_block();
  session.lap();
  session.end_block(NAN);
  session.next_block();
  for (auto _ : state) session.lap();
}
BENCHMARK(lap);

void next_batch(benchmark::State& state) {
  const Cell cell("harness", static_cast<int>(state.range(0)), "train");
  BatchSession session(cell.folder.path());
  std::vector<float> inputs(batch * elements);
  std::vector<std::int32_t> labels(batch);
  for (auto _ : state) {
    session.next_block();
    session.next_batch(inputs.data(), labels.data());
    session.end_block(0);
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(next_batch)->Arg(0)->Arg(1)->Arg(2)->UseRealTime()->Iterations(5'000);

void evaluator(benchmark::State& state) {
  Evaluator evaluator(10);
  std::vector<float> logits(batch * 10);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  const std::vector<std::int32_t> labels(batch, 3);
  for (auto _ : state) evaluator.add(logits.data(), labels);
  benchmark::DoNotOptimize(evaluator.loss());
}
BENCHMARK(evaluator);

}  // namespace
}  // namespace assay

BENCHMARK_MAIN();

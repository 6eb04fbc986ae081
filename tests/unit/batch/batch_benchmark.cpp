// The cost of the batch library: a block, a lap, a batch of LeNet's at each number of threads, an
// evaluation; images per second of JPEG files, next to libjpeg-turbo by itself.
#include <cmath>
#include <vector>

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include "harness/batch/encoded_source.hpp"
#include "harness/batch/loader.hpp"
#include "harness/batch/manifest.hpp"
#include "harness/batch/supply.hpp"
#include "harness/conductor/data/epoch_plan.hpp"
#include "harness/conductor/data/preparation.hpp"
#include "harness/conductor/data/synthetic.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "tests/jpeg_file.hpp"
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
    write_npy(folder / "data/labels.npy", {DType::i32, {samples}}, std::span(data.labels));
    Manifest manifest;
    manifest.name = "synthetic";
    manifest.sample_shape = {1, 28, 28};
    manifest.classes = 10;
    manifest.normalisation.scale = {1.0f / 255};
    manifest.splits["train"] = {"data/inputs.npy", "data/labels.npy", 0, samples};
    write_manifest(folder.path(), manifest);
    write_epoch_plans(folder.path(), samples, 1, 1);
    const std::vector<double> schedule = {0.001, 1};
    write_npy(folder / "schedule.npy", {DType::f64, {1, 2}}, std::span(schedule));
    const nlohmann::json request = {{"protocol", 1},
                                    {"mode", "graph"},
                                    {"precision", "fp32"},
                                    {"batch", batch},
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
  BatchSupply supply(cell.folder.path());
  for (auto _ : state) {
    benchmark::DoNotOptimize(supply.next_block());
    supply.end_block(0);
  }
}
BENCHMARK(block_of_one_resident_step)->Iterations(20'000);

void lap(benchmark::State& state) {
  const Cell cell("resident", 0, "infer");
  BatchSupply supply(cell.folder.path());
  supply.next_block();
  supply.lap();
  supply.end_block(NAN);
  supply.next_block();
  for (auto _ : state) supply.lap();
}
BENCHMARK(lap);

void next_batch(benchmark::State& state) {
  const Cell cell("harness", static_cast<int>(state.range(0)), "train");
  BatchSupply supply(cell.folder.path());
  std::vector<float> inputs(batch * elements);
  std::vector<std::int32_t> labels(batch);
  for (auto _ : state) {
    supply.next_block();
    supply.next_batch(inputs.data(), labels.data());
    supply.end_block(0);
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

// ImageNet's usual size and, by smooth content under noise, about its usual 110 kB.
std::string photograph(std::uint64_t number) {
  constexpr unsigned width = 500, height = 375;
  std::vector<std::uint8_t> pixels;
  Philox random(number, "photograph");
  for (unsigned y = 0; y < height; ++y)
    for (unsigned x = 0; x < width; ++x)
      for (unsigned c = 0; c < 3; ++c)
        pixels.push_back(
            static_cast<std::uint8_t>((x * (c + 1) / 4 + y * (3 - c) / 4) / 2 + random.below(24)));
  return jpeg_of(pixels, width, height, 3, 90);
}

void libjpeg_turbo_alone(benchmark::State& state) {
  const std::string file = photograph(1);
  RgbImage image;
  for (auto _ : state) decode_jpeg(std::as_bytes(std::span(file)), "photograph", image);
  state.SetItemsProcessed(state.iterations());
  state.counters["file_bytes"] = static_cast<double>(file.size());
}
BENCHMARK(libjpeg_turbo_alone)->UseRealTime()->MinTime(2);

// Decoded, scaled, cropped, normalised and handed over, by that many threads.
void images_of_jpeg_files(benchmark::State& state) {
  constexpr std::int64_t images = 16, pixels = 3 * 224 * 224;
  const TemporaryFolder folder;
  for (const char* part : {"train/a", "train/b", "val/a", "val/b"}) {
    std::filesystem::create_directories(folder / "images" / part);
    for (std::uint64_t i = 0; i < 32; ++i)
      write_atomically(folder / "images" / part / (std::to_string(i) + ".jpg"), photograph(i), false);
  }
  PrepareOptions options;
  options.folders = {folder.path()};
  options.cache = folder / "cache";
  options.sample_shape = {3, 224, 224};
  SourceOpener opener(prepare_dataset("images", options).manifest);
  const auto source = opener.open("train");
  const std::vector<PlanRow> plan = epoch_plan(64, 1, 1, {16, true});
  Loader loader(static_cast<int>(state.range(0)), 4, images, pixels);
  loader.start({source.get(), images, pixels, std::int64_t{1} << 40, {plan}});
  std::vector<float> inputs(images * pixels);
  std::vector<std::int32_t> labels(images);
  for (auto _ : state) loader.next(inputs.data(), labels.data());
  state.SetItemsProcessed(state.iterations() * images);
}
BENCHMARK(images_of_jpeg_files)->Arg(0)->Arg(1)->Arg(2)->UseRealTime()->MinTime(2);

}  // namespace
}  // namespace assay

BENCHMARK_MAIN();

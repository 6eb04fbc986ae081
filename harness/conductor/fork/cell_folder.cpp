#include "harness/conductor/fork/cell_folder.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/check/rank_exam.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/data/epoch_plan.hpp"
#include "harness/conductor/data/initial_values.hpp"
#include "harness/conductor/fork/original_model.hpp"
#include "harness/conductor/fork/run_audit.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/paths.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/passes/batch.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/clock_file.hpp"
#include "harness/protocol/message.hpp"
#include "harness/protocol/request.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

constexpr int prefetched_batches = 4;

ClockRequest clock_request(const MeasurePlan& measure) {
  if (measure.epochs > 0) {
    return {.kind = ClockKind::epochs,
            .epochs = static_cast<int>(measure.epochs),
            .evaluate = {"train", "validation", "test"}};
  }
  return {.kind = ClockKind::steps,
          .warm_up = {.min_steps = measure.warm_up_steps, .min_seconds = measure.warm_up_seconds},
          .block_seconds = measure.block_seconds,
          .blocks = measure.blocks,
          .steps = measure.steps > 0 ? std::optional(measure.steps) : std::nullopt};
}

// The axes that are copied into request.json.
Json requested_axes(const Axes& axes) {
  Json json = Json::object();
  for (const Axis& axis : axis_table()) {
    if (axis.request) json[axis.key()] = axis_json(axis, axes);
    // The axes that only single ops have form their own object.
    if (axis.applies == AppliesTo::op && axis.has_field() && axis.applies_to(axes.kind()))
      json["op"][axis.key()] = axis_json(axis, axes);
  }
  return json;
}

// No fsync: the folder exists only during one fork.
void write_text(const std::filesystem::path& file, const std::string& text) {
  write_atomically(file, text, false);
}

// Drawn inputs of `samples` samples, and their labels, as the data set of a cell. labels_shape: of one sample.
Manifest write_drawn(const std::filesystem::path& folder, const Cell& cell, std::int64_t samples,
                     std::uint64_t seed, const Shape& labels_shape, std::int64_t classes) {
  const Graph& graph = cell.program->graph(cell.axes.task);
  const std::int64_t batch = batch_of(*cell.program), elements = input_elements(graph) / batch;
  Manifest manifest;
  manifest.name = "operands";
  manifest.sample_shape = {elements};
  manifest.classes = classes;
  manifest.splits["train"] = {"data/inputs.npy", "data/labels.npy", 0, samples};
  write_manifest(folder, manifest);
  write_npy<float>(folder / "data/inputs.npy", {DType::f32, {samples, elements}},
                   draw_operands(graph, samples, seed, "operands", batch));
  Shape shape = labels_shape;
  shape.insert(shape.begin(), samples);
  HostTensor labels = HostTensor::zeros("labels", {DType::i32, std::move(shape)});
  Philox random(seed, "operands/labels");
  for (std::int32_t& label : labels.as<std::int32_t>())
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes)));
  write_npy(folder / "data/labels.npy", labels);
  return manifest;
}

// The samples of a network with several inputs: as many as its resident batches have.
Manifest write_packed(const std::filesystem::path& folder, const Cell& cell, std::uint64_t seed) {
  const std::int64_t samples = cell.measure.resident_batches * batch_of(*cell.program);
  if (!cell.program->training) return write_drawn(folder, cell, samples, seed, {}, 1);
  const Graph& graph = *cell.program->training;
  const Shape& logits = graph.value(graph.output("logits")).type.shape;
  return write_drawn(folder, cell, samples, seed, Shape(logits.begin() + 1, logits.end() - 1), logits.back());
}

Manifest write_samples(const std::filesystem::path& folder, const NetworkCell& network, const Cell& cell,
                       DatasetShelf& shelf) {
  Manifest manifest = shelf.get(cell).manifest;
  if (network.raw_pixels) manifest.normalisation = {};
  for (auto& [name, split] : manifest.splits) {
    if (const std::int64_t samples = cell.axes.integer("samples"); samples > 0)
      split.count = std::min(split.count, samples);
  }
  write_manifest(folder, manifest);
  return manifest;
}

void write_data(const std::filesystem::path& folder, const NetworkCell& network, const Cell& cell,
                std::uint64_t seed, DatasetShelf& shelf, const RankPlace& place) {
  const Manifest manifest =
      cell.reads_dataset() ? write_samples(folder, network, cell, shelf) : write_packed(folder, cell, seed);
  const std::int64_t samples = manifest.splits.at("train").count;
  if (samples < cell.axes.batch) {
    throw ConfigError(
        fmt::format("[data] {} has {} training samples, fewer than a batch of {}; use a smaller --batch",
                    manifest.name, samples, cell.axes.batch));
  }
  write_epoch_plans(folder, samples, static_cast<int>(std::max<std::int64_t>(1, cell.measure.epochs)), seed,
                    network.augmentation, {cell.axes.batch, place.rank, place.world});
  const std::int64_t rows = schedule_rows(cell.measure, cell.axes.batch, samples);
  const std::vector<double> schedule = training_schedule(
      network.schedule.over(cell.measure.epochs), network.learning_rate, rows, samples / cell.axes.batch);
  write_npy<double>(folder / "schedule.npy", {DType::f64, {rows, 2}}, schedule);
}

// Writes the sets of operands that the steps of a single op rotate.
void write_data(const std::filesystem::path& folder, const OpCell&, const Cell& cell, std::uint64_t seed,
                DatasetShelf&, const RankPlace&) {
  const std::int64_t sets = cell.measure.resident_batches;
  write_drawn(folder, cell, sets, seed, {}, 1);
  write_epoch_plans(folder, sets, 1, seed);
}

}  // namespace

DatasetShelf::DatasetShelf(std::vector<std::filesystem::path> folders,
                           std::function<void(const std::string&)> note) {
  options_.note = std::move(note);
  options_.folders = dataset_folders(folders);
  options_.cache = cache_folder();
}

const PreparedDataset& DatasetShelf::get(const Cell& cell) {
  PrepareOptions options = options_;
  std::string key = cell.axes.dataset;
  const Dataset& dataset = find_dataset(key);
  const Graph& graph = cell.program->inference;
  const std::int64_t classes = graph.value(graph.output("logits")).type.shape.back();
  if (dataset.made_here() || dataset.sample_shape.empty()) {
    const Shape& inputs = graph.value(graph.find("inputs")).type.shape;
    options.sample_shape.assign(inputs.begin() + 1, inputs.end());
    options.classes = classes;
    const Workload& workload = *cell.network().workload;
    options.next_token = workload.next_token;
    options.positions = workload.positions;
    options.vocabulary = workload.next_token ? options.classes : workload.vocabulary;
    options.padding = workload.padding;
    key += fmt::format("{} {} {} {}", to_string(options.sample_shape), options.classes, options.vocabulary,
                       options.positions);
  }
  auto found = sets_.find(key);
  if (found == sets_.end()) {
    PreparedDataset prepared = prepare_dataset(cell.axes.dataset, options);
    for (const auto& [other, known] : sets_)
      if (!dataset.made_here() && known.manifest.name == prepared.manifest.name &&
          known.provenance.checksum != prepared.provenance.checksum)
        throw IoError(
            "data", prepared.provenance.folder,
            fmt::format("the files of {} were changed since the run began: cells with other data must "
                        "not be in one report; start the run again",
                        prepared.manifest.name));
    found = sets_.emplace(key, std::move(prepared)).first;
  }
  const Manifest& manifest = found->second.manifest;
  if (const auto& training = cell.program->training; training) {
    const Shape& labels = training->value(training->find("labels")).type.shape;
    const std::int64_t wanted = labels.size() > 1 ? labels[1] : 0;
    if (manifest.positions != wanted)
      throw ConfigError(fmt::format(
          "[data] {} has labels at {}, but the network of {} at {}; if the files of the set have just been "
          "changed, start the run again",
          manifest.name, plural(manifest.positions, "position"), cell.axes.workload, wanted));
  }
  if (manifest.classes != classes)
    throw ConfigError(fmt::format(
        "[data] {} has {} classes, but the network of {} has {}; if the files of the set have just been "
        "changed, start the run again",
        manifest.name, manifest.classes, cell.axes.workload, classes));
  return found->second;
}

std::string file_name_of(const Cell& cell) {
  std::string name = cell.id;
  std::ranges::replace_if(name, [](char c) { return c == '/' || c == ':' || c == ' '; }, '_');
  // A file name has at most 255 bytes, and "check-" may be added in front.
  constexpr std::size_t max_length = 200, kept = 120;
  if (name.size() > max_length) name = name.substr(0, kept) + "_" + sha256(name);
  return name;
}

// Between the seeds of two ranks: a generator that counts up from its seed must not meet that of the next rank.
constexpr std::uint64_t seeds_of_a_rank = 1'000'003;

Json request_json(const Cell& cell, std::uint64_t seed, const RankPlace& place) {
  const double memory_cap = cell.axes.number("memory-cap");
  Json axes = requested_axes(cell.axes);
  axes["protocol"] = protocol::version;
  auto request = decoded<CellRequest>(axes, "request.json");
  request.threads = cell.compute_threads();
  request.seed = seed + static_cast<std::uint64_t>(place.rank) * seeds_of_a_rank;
  request.world = cell.axes.ranks();
  request.rank = place.rank;
  request.rendezvous = place.rendezvous;
  request.profile = cell.profile;
  if (memory_cap > 0) request.memory_cap_bytes = std::llround(memory_cap * 0x1p30);
  request.loader = {.kind = cell.axes.loader,
                    .workers = cell.axes.loader_workers,
                    .prefetch = prefetched_batches,
                    .resident_batches = cell.measure.resident_batches};
  request.clock = clock_request(cell.measure);
  request.check = {.distinct = cell.distinct, .perturbations = perturbations};
  Json json = encode(request);
  json.update(axes);  // also writes a new axis that CellRequest does not have
  return json;
}

Json settings_in_force(const Cell& cell) {
  Json settings = Json::object(), request = request_json(cell, 0);
  for (const char* key :
       {"clock", "loader", "check", "threads", "profile", "memory_fraction", "memory_cap_bytes"})
    settings[key] = std::move(request[key]);
  settings["check"]["asked"] = cell.check;
  const std::int64_t samples = cell.axes.integer("samples");
  settings["samples"] = samples > 0 ? Json(samples) : Json(nullptr);
  return settings;
}

void write_cell_folder(const std::filesystem::path& folder, const Cell& cell, FolderPurpose purpose,
                       std::uint64_t seed, const std::filesystem::path& exam, DatasetShelf& data,
                       const PublishedWeights* weights, const RankPlace& place,
                       const std::filesystem::path& state) {
  std::filesystem::create_directories(folder / "results");
  const bool alone = place.world == 1;
  const Cell own = alone ? cell : cell_of_rank(cell);
  Json request = request_json(own, seed, place);
  const bool is_judged = purpose == FolderPurpose::run && !exam.empty() && place.rank == 0;
  if (is_judged && hands_over(cell)) request["hand_over"] = true;
  write_text(folder / "request.json", request.dump(1));
  write_text(folder / "graph.json", to_json(*own.program).dump());
  // Without training, the cell starts from the exam's state: what was timed is what is examined.
  const bool starts_from_exam = !exam.empty() && cell.axes.task != Task::train && !cell.program->is_op();
  if (!state.empty() || starts_from_exam) {
    copy_atomically(state.empty() ? exam / "state.safetensors" : state, folder / "parameters.safetensors",
                    false);
  } else {
    std::vector<HostTensor> parameters = initial_values(cell.program->inference, seed, cell.initial_scheme());
    // What --initial names is drawn, also if the folder of an imported network has weights.
    if (weights != nullptr && !weights->are_given(cell.axes.workload) && cell.initial_scheme())
      weights->put_constants_into(parameters, cell.axes.workload);
    else if (weights != nullptr)
      weights->put_into(parameters, cell.axes.workload);
    write_safetensors(folder / "parameters.safetensors", parameters);
  }
  if (cell.axes.mode == original_mode && !cell.axes.is_op()) write_original(folder, cell);
  if (!exam.empty() && alone)
    copy_files(exam, folder / "check", false);
  else if (!exam.empty())
    write_exam_of_rank(exam, folder / "check", place.rank, place.world);
  if (purpose != FolderPurpose::run) return;
  std::visit([&](const auto& subject) { write_data(folder, subject, cell, seed, data, place); },
             cell.subject);
}

void read_clock(const std::filesystem::path& file, bool has_loss, Fork& fork) {
  ClockFile clock = read_clock_file(file);
  if (!clock.complete) throw CellError("results/clock.json: the worker did not measure all blocks");
  fork.blocks = std::move(clock.blocks);
  for (Block& block : fork.blocks) {
    if (!has_loss)
      block.loss.reset();
    else if (!block.loss)
      block.loss = std::numeric_limits<double>::quiet_NaN();
  }
  fork.disturbance = clock.disturbance;
  fork.evaluations = std::move(clock.evaluations);
  fork.latencies_ns = std::move(clock.latencies_ns);
  fork.latencies_seen = clock.latencies_seen;
  fork.prefills_ns = std::move(clock.prefills_ns);
  fork.readings = std::move(clock.readings);
  fork.steady = clock.warm_up.steady;
}

}  // namespace assay

// write_check: parameters, one batch and a schedule on which mistakes show.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/data/initial_values.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// Values in +-[low, high], or in [low, high] when `positive`, never one.
struct Range {
  double low = 0;
  double high = 0;
  bool positive = false;
};

// Scales that neither saturate nor fade: weights keep the variance through a ReLU (He et al. 2015), and
// biases and running means are as large as what they are added to. Bounded away from zero and one, the values
// that hide a missing term or factor.
Range range_of(const Value& value) {
  if (value.initializer == "ones") return {0.5, 1.5, true};  // scales and running variances
  if (value.type.shape.size() < 2) return {0.05, 0.25, false};
  const double fan_in = static_cast<double>(value.type.elements() / value.type.shape.front());
  const double limit = std::sqrt(6 / std::max(1.0, fan_in));
  return {0.1 * limit, limit, false};
}

float draw(Philox& random, const Range& range) {
  for (;;) {
    const double magnitude = range.low + (range.high - range.low) * random.uniform_double();
    if (std::abs(magnitude - 1) < 0.02) continue;
    return static_cast<float>(range.positive || random.uniform_double() < 0.5 ? magnitude : -magnitude);
  }
}

// From zero moments the first steps of lazy_adam are those of adam, since a row without a gradient stays
// where it is: it starts from moments that would move it. The size is that of small gradients.
void add_moments(std::vector<HostTensor>& tensors, const Graph& graph, std::uint64_t seed) {
  for (const ValueId id : graph.with_role(Role::parameter)) {
    const Value& value = graph.value(id);
    for (const auto& [moment, range] :
         {std::pair{"m", Range{0.002, 0.01, false}}, std::pair{"v", Range{1e-5, 1e-4, true}}}) {
      HostTensor tensor = HostTensor::zeros(value.name + "." + moment, {DType::f32, value.type.shape});
      Philox random(seed, "check/" + tensor.name);
      for (float& element : tensor.as<float>()) element = draw(random, range);
      tensors.push_back(std::move(tensor));
    }
  }
}

std::vector<HostTensor> parameters_of(const Program& program, std::uint64_t seed) {
  const Graph& graph = program.training;
  std::vector<HostTensor> tensors;
  for (const Value& value : graph.values()) {
    if (value.role != Role::parameter && value.role != Role::state) continue;
    Philox random(seed, "check/" + value.name);
    HostTensor tensor = HostTensor::zeros(value.name, {DType::f32, value.type.shape});
    const Range range = range_of(value);
    for (float& element : tensor.as<float>()) element = draw(random, range);
    tensors.push_back(std::move(tensor));
  }
  if (program.optimizer.kind == "lazy_adam") add_moments(tensors, graph, seed);
  return tensors;
}

// Row r of the batch is sample row_of[r]: every sample equally often, in an order without pattern.
std::vector<std::int64_t> shuffled_rows(std::int64_t batch, std::int64_t distinct, Philox random) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(batch));
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = static_cast<std::int64_t>(r) % distinct;
  random.shuffle(std::span(rows));
  return rows;
}

// A single op: the one sample that holds all operands of the task.
HostTensor operands_of(const Graph& graph, std::uint64_t seed) {
  HostTensor inputs = HostTensor::zeros("inputs", {DType::f32, {1, input_elements(graph)}});
  std::ranges::copy(draw_operands(graph, 1, seed, "check"), inputs.as<float>().begin());
  return inputs;
}

// Each sample to its rows of the batch.
template <typename T>
void spread_rows(const std::vector<T>& samples, const CheckBatch& batch, std::span<T> target) {
  const std::size_t row = samples.size() / static_cast<std::size_t>(batch.distinct);
  for (std::size_t r = 0; r < batch.row_of.size(); ++r) {
    const auto from =
        samples.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(batch.row_of[r]) * row);
    std::copy_n(from, row, target.begin() + static_cast<std::ptrdiff_t>(r * row));
  }
}

// Like normalised images: mean 0, deviation 1, no two alike.
HostTensor inputs_of(const Shape& shape, const CheckBatch& batch, std::uint64_t seed) {
  HostTensor inputs = HostTensor::zeros("inputs", {DType::f32, shape});
  const auto row = static_cast<std::size_t>(inputs.type.elements() / batch.batch);
  std::vector<float> samples(row * static_cast<std::size_t>(batch.distinct));
  Philox random(seed, "check/inputs");
  for (float& value : samples) value = static_cast<float>(std::sqrt(12.0) * (random.uniform_double() - 0.5));
  spread_rows(samples, batch, inputs.as<float>());
  return inputs;
}

// Whole numbers below the rows of the table that they look up: what the graph reads them with. Each table row
// is as likely as any other, so that most appear and some twice.
HostTensor tokens_of(const Shape& shape, std::int64_t vocabulary, const CheckBatch& batch,
                     std::uint64_t seed) {
  HostTensor inputs = HostTensor::zeros("inputs", {DType::i32, shape});
  const auto row = static_cast<std::size_t>(inputs.type.elements() / batch.batch);
  std::vector<std::int32_t> samples(row * static_cast<std::size_t>(batch.distinct));
  Philox random(seed, "check/inputs");
  for (std::int32_t& token : samples)
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
  spread_rows(samples, batch, inputs.as<std::int32_t>());
  return inputs;
}

// The rows of the table that the inputs are looked up in.
std::int64_t vocabulary_of(const Graph& graph, ValueId inputs) {
  for (const Node& node : graph.nodes()) {
    if (node.op->name() == "embedding" && node.inputs[0] == inputs)
      return graph.value(node.inputs[1]).type.shape.front();
  }
  throw GraphError(fmt::format(
      "[check] graph '{}': no embedding reads the tokens, so nobody knows how many there are", graph.name()));
}

HostTensor labels_of(std::int64_t classes, const CheckBatch& batch) {
  HostTensor labels = HostTensor::zeros("labels", {DType::i32, {batch.batch}});
  for (std::size_t r = 0; r < batch.row_of.size(); ++r) {
    const std::int64_t sample = batch.row_of[r];
    const std::int64_t spread =
        batch.distinct < classes ? sample * classes / batch.distinct : sample % classes;
    labels.as<std::int32_t>()[r] = static_cast<std::int32_t>(spread);
  }
  return labels;
}

// Drawn once for each sample: a dropout of the check is data like its inputs.
std::vector<HostTensor> masks_of(const Graph& graph, const CheckBatch& batch, std::uint64_t seed) {
  std::vector<HostTensor> masks;
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.inputs) {
      if (id == none || graph.value(id).role != Role::mask) continue;
      const Value& value = graph.value(id);
      const double rate = node.attributes.number("rate");
      HostTensor mask = HostTensor::zeros(value.name, value.type);
      const auto row = static_cast<std::size_t>(value.type.elements() / batch.batch);
      std::vector<std::uint8_t> samples(row * static_cast<std::size_t>(batch.distinct));
      Philox random(seed, "check/" + value.name);
      for (std::uint8_t& kept : samples) kept = random.uniform() >= static_cast<float>(rate);
      const std::span<std::uint8_t> target = mask.as<std::uint8_t>();
      for (std::size_t r = 0; r < batch.row_of.size(); ++r) {
        std::copy_n(
            samples.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(batch.row_of[r]) * row),
            row, target.begin() + static_cast<std::ptrdiff_t>(r * row));
      }
      masks.push_back(std::move(mask));
    }
  }
  return masks;
}

// Three steps with unlike learning rates: large enough that an update stands well above the rounding of the
// parameter, and small enough that the first neither solves the few samples, after which all gradients are
// rounding (Adam on cnn, SGD on alexnet), nor leaves what is finite (plain SGD on vgg_a, which has no norm).
HostTensor schedule_of(const OptimizerSpec& optimizer) {
  const double base = optimizer.kind == "sgd" ? 0.0005 : 0.0002;
  HostTensor schedule = HostTensor::zeros("schedule", {DType::f64, {3, 2}});
  const std::span<double> rows = schedule.as<double>();
  const double factors[] = {1, 2, 0.5};
  for (std::size_t step = 0; step < 3; ++step) {
    rows[2 * step] = base * factors[step];
    rows[2 * step + 1] = static_cast<double>(step + 1);
  }
  return schedule;
}

}  // namespace

std::int64_t distinct_samples(std::int64_t batch, std::int64_t asked) {
  if (batch < 1 || asked < 1) {
    throw std::invalid_argument(
        fmt::format("[check] batch {} with {} distinct samples: both must be positive", batch, asked));
  }
  std::int64_t below = std::min(batch, asked);
  while (batch % below != 0) --below;
  if (2 * below >= std::min(asked, batch)) return below;
  std::int64_t above = asked;
  while (batch % above != 0) ++above;
  return above;
}

CheckBatch write_check(const fs::path& cell_folder, const Program& program, std::uint64_t seed,
                       std::int64_t distinct, Task task) {
  const Graph& graph = program.training;
  CheckBatch batch{batch_of(program), 0, {}};
  batch.distinct = distinct_samples(batch.batch, distinct);
  batch.row_of = shuffled_rows(batch.batch, batch.distinct, Philox(seed, "check/rows"));

  const fs::path folder = cell_folder / "check";
  fs::create_directories(folder);
  write_safetensors(folder / "parameters.safetensors", parameters_of(program, seed));
  if (program.is_op()) {
    write_npy(folder / "inputs.npy", operands_of(program.graph(task), seed));
    write_npy(folder / "labels.npy", HostTensor::zeros("labels", {DType::i32, {1}}));
  } else {
    const Value& inputs = graph.value(graph.find("inputs"));
    const bool tokens = inputs.type.dtype == DType::i32;
    write_npy(folder / "inputs.npy",
              tokens ? tokens_of(inputs.type.shape, vocabulary_of(graph, graph.find("inputs")), batch, seed)
                     : inputs_of(inputs.type.shape, batch, seed));
    write_npy(folder / "labels.npy", labels_of(graph.value(graph.output("logits")).type.shape.back(), batch));
  }
  write_npy(folder / "schedule.npy", schedule_of(program.optimizer));
  const std::vector<HostTensor> masks = masks_of(graph, batch, seed);
  if (!masks.empty()) write_safetensors(folder / "masks.safetensors", masks);
  write_atomically(folder / "batch.json", encode(batch).dump() + "\n");
  return batch;
}

CheckBatch read_check_batch(const fs::path& cell_folder) {
  const fs::path path = cell_folder / "check" / "batch.json";
  const auto batch = decoded<CheckBatch>(read_strict_json(path), path.string());
  const bool fits = static_cast<std::int64_t>(batch.row_of.size()) == batch.batch &&
                    std::all_of(batch.row_of.begin(), batch.row_of.end(),
                                [&](std::int64_t row) { return row >= 0 && row < batch.distinct; });
  if (!fits) throw JsonError(fmt::format("{}: rows and samples do not fit together", path.string()));
  return batch;
}

}  // namespace assay

#include "harness/exam/feeds.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/io/safetensors.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::vector<HostTensor> read_if_there(const fs::path& path) {
  return fs::exists(path) ? read_safetensors(path) : std::vector<HostTensor>();
}

HostTensor require(HostTensor tensor, const fs::path& path, DType dtype, std::size_t rank) {
  if (tensor.type.dtype != dtype || tensor.type.shape.size() < rank) {
    throw CellError(fmt::format("[exam] {} holds {}, but {} of at least {} dimensions is required",
                                path.string(), to_string(tensor.type), to_string(dtype), rank));
  }
  return tensor;
}

HostTensor read_array(const fs::path& path, DType dtype, std::size_t rank) {
  return require(read_npy(path), path, dtype, rank);
}

// Reads f32, or i32 tokens.
HostTensor read_inputs(const fs::path& path) {
  HostTensor tensor = read_npy(path);
  const DType dtype = tensor.type.dtype == DType::i32 ? DType::i32 : DType::f32;
  return require(std::move(tensor), path, dtype, 1);
}

// Makes each row of a batch from its sample; `first` is the first of these samples.
HostTensor spread(const HostTensor& samples, std::int64_t first, const ExamBatches& batches) {
  Shape shape = samples.type.shape;
  const std::size_t row = samples.bytes.size() / static_cast<std::size_t>(shape.front());
  shape.front() = batches.batch;
  HostTensor rows = HostTensor::zeros(samples.name, {samples.type.dtype, shape});
  for (std::size_t r = 0; r < batches.row_of.size(); ++r) {
    const auto sample = static_cast<std::size_t>(first + batches.row_of[r]);
    std::copy_n(samples.bytes.begin() + static_cast<std::ptrdiff_t>(sample * row), row,
                rows.bytes.begin() + static_cast<std::ptrdiff_t>(r * row));
  }
  return rows;
}

void make_rows_differ(HostTensor& inputs, const ExamBatches& batches) {
  const std::span<float> values = inputs.as<float>();
  const std::size_t row = values.size() / batches.row_of.size();
  std::vector<bool> met(static_cast<std::size_t>(batches.distinct));
  for (std::size_t r = 0; r < batches.row_of.size(); ++r) {
    const auto sample = static_cast<std::size_t>(batches.row_of[r]);
    if (!met[sample]) {
      met[sample] = true;
      continue;
    }
    Philox random(r, "exam/rows");
    // A token among packed inputs is a whole number, and stays.
    for (float& value : values.subspan(r * row, row))
      if (random.below(4) == 0 && value != std::trunc(value)) value = std::nextafter(value, 0.0f);
  }
}

}  // namespace

void nudge(std::span<float> values, std::uint64_t one_in, Philox& random) {
  for (float& value : values)
    if (random.below(one_in) == 0) value = std::nextafter(value, 0.0f);
}

FedBatch ExamFeeds::batch(std::int64_t number) const {
  const std::int64_t first = number * batches.distinct;
  FedBatch fed{spread(inputs, first, batches), spread(labels, first, batches)};
  if (fed.inputs.type.dtype == DType::f32) make_rows_differ(fed.inputs, batches);
  return fed;
}

std::vector<HostTensor> ExamFeeds::batch_masks() const {
  std::vector<HostTensor> rows;
  for (const HostTensor& mask : masks) rows.push_back(spread(mask, 0, batches));
  return rows;
}

double ExamFeeds::learning_rate(std::int64_t row) const {
  return schedule.as<double>()[static_cast<std::size_t>(2 * row)];
}
std::int64_t ExamFeeds::step_count(std::int64_t row) const {
  return static_cast<std::int64_t>(schedule.as<double>()[static_cast<std::size_t>(2 * row + 1)]);
}

ExamFeeds read_exam(const fs::path& cell_folder) {
  const fs::path folder = cell_folder / "check";
  const fs::path continuation = folder / "continuation.json", run = folder / "run.json",
                 excerpt = folder / "excerpt.json";
  ExamFeeds feeds{
      read_safetensors(folder / "state.safetensors"),
      read_inputs(folder / "inputs.npy"),
      read_array(folder / "labels.npy", DType::i32, 1),
      read_array(folder / "schedule.npy", DType::f64, 2),
      read_if_there(folder / "masks.safetensors"),
      read_if_there(folder / "extreme.safetensors"),
      read_exam_batches(folder / "batches.json"),
      fs::exists(continuation) ? std::optional(read_exam_continuation(continuation)) : std::nullopt,
      fs::exists(run) ? std::optional(read_exam_run(run)) : std::nullopt,
      fs::exists(excerpt) ? std::optional(read_exam_excerpt(excerpt)) : std::nullopt};
  const std::int64_t samples = feeds.batches.count() * feeds.batches.distinct;
  if (feeds.inputs.type.shape.front() != samples || feeds.labels.type.shape.front() != samples) {
    throw CellError(fmt::format("[exam] {} has inputs {} and labels {}, but {} samples are required",
                                folder.string(), to_string(feeds.inputs.type), to_string(feeds.labels.type),
                                samples));
  }
  if (feeds.steps() < 1 || feeds.schedule.type.shape.back() != 2) {
    throw CellError(
        fmt::format("[exam] {} is {}: at least two rows of learning rate and step count are required",
                    (folder / "schedule.npy").string(), to_string(feeds.schedule.type)));
  }
  return feeds;
}

}  // namespace assay

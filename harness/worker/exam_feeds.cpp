#include "harness/worker/exam.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/io/safetensors.hpp"

namespace assay {
namespace {

std::vector<HostTensor> drawn(Executable& executable, std::int64_t slot, std::int64_t step) {
  executable.step(slot, 0, step);
  return executable.masks();
}

// "draws/<mask>" U8 (2, ...) for each mask of the program, from two further steps. Uses the executable's current state, at
// learning rate 0 and on the first batch; the executable draws masks again afterwards. Empty without dropout.
std::vector<HostTensor> draw_answers(Executable& executable, const ExamFeeds& feeds) {
  std::vector<HostTensor> answers;
  if (feeds.masks.empty()) return answers;
  executable.supply_masks({});
  const std::int64_t slot = feeds.batches.slots.front();
  StagingBuffer buffer(executable);
  buffer.stage(slot, feeds.batch(0));
  const std::int64_t next = feeds.step_count(feeds.steps()) + 1;
  for (std::int64_t step = next; step < next + 2; ++step)
    for (HostTensor& mask : drawn(executable, slot, step)) {
      mask.name = "draws/" + mask.name;
      stack(answers, mask, 2);
    }
  return answers;
}

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

HostTensor in_f32(const HostTensor& tensor) {
  HostTensor result = HostTensor::zeros(tensor.name, {DType::f32, tensor.type.shape});
  const std::span<const double> values = tensor.as<double>();
  std::transform(values.begin(), values.end(), result.as<float>().begin(),
                 [](double value) { return static_cast<float>(value); });
  return result;
}

void write_results(const fs::path& cell_folder, const char* name, const std::vector<HostTensor>& tensors) {
  fs::create_directories(cell_folder / "results");
  write_safetensors(cell_folder / "results" / name, tensors);
}

}  // namespace

namespace {

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

void StagingBuffer::stage(std::int64_t slot, const FedBatch& batch) {
  const auto fill = [](HostTensor& tensor, const HostTensor& from) {
    tensor.name = from.name;
    tensor.type = from.type;
    tensor.bytes.resize(from.bytes.size());
    std::ranges::copy(from.bytes, tensor.bytes.begin());
  };
  fill(buffer_.inputs, batch.inputs);
  fill(buffer_.labels, batch.labels);
  executable_.stage(slot, buffer_.host());
  for (HostTensor* tensor : {&buffer_.inputs, &buffer_.labels}) {
    if (tensor->type.dtype == DType::f32) {
      std::ranges::fill(tensor->as<float>(), std::numeric_limits<float>::quiet_NaN());
    } else if (const std::span<std::int32_t> values = tensor->as<std::int32_t>(); !values.empty()) {
      // The largest token or label: one that is too large could end the process.
      std::ranges::fill(values, *std::ranges::max_element(values));
    }
  }
}

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

void write_exam_results(Executable& executable, const Program& program, Task task,
                        const std::optional<Trained>& run, const fs::path& cell_folder) {
  const ExamFeeds feeds = read_exam(cell_folder);
  const std::unique_ptr<Answers> asked = answers_of(program, task);
  std::vector<HostTensor> answers;
  if (feeds.run)
    answers = asked->run(executable, feeds.run->slots, run ? run->read : std::vector<HostTensor>{});
  if (feeds.continuation) {
    // If each step gets its own batch, no batch of the run needs to be left.
    StagingBuffer buffer(executable);
    if (!run || std::ranges::all_of(feeds.batches.slots, [](std::int64_t slot) { return slot == 0; }))
      for (std::int64_t i = 0; i < feeds.batches.count(); ++i)
        buffer.stage(feeds.batches.slots[static_cast<std::size_t>(i)], feeds.batch(i));
    answers = continue_run(executable, feeds, (run ? run->last_step : 0) + 1);
  }
  for (HostTensor& tensor : asked->exam(executable, feeds))
    answers.push_back(tensor.type.dtype == DType::f64 ? in_f32(tensor) : std::move(tensor));
  if (asked->draws_masks()) std::ranges::move(draw_answers(executable, feeds), std::back_inserter(answers));
  write_results(cell_folder, "verify.safetensors", answers);
}

void write_oracle_results(Backend& backend, const Program& program, CompileOptions options,
                          const OracleOptions& oracle, const fs::path& cell_folder) {
  write_results(cell_folder, "oracle.safetensors",
                oracle_answers(backend, program, std::move(options), oracle, read_exam(cell_folder)));
}

}  // namespace assay

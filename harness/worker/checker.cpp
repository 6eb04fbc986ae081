#include "harness/worker/checker.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/safetensors.hpp"

namespace assay {
namespace {

// In a mask: the element was given as 0, so that nobody can tell whether it was kept.
constexpr std::uint8_t unknown = 255;

std::vector<HostTensor> drawn(Executable& executable, std::int64_t step) {
  executable.step(0, 0, step);
  return executable.masks();
}

HostTensor counted(const HostTensor& first, const HostTensor& second) {
  double kept_first = 0, kept_second = 0, equal = 0, all = 0;
  const auto a = first.as<std::uint8_t>(), b = second.as<std::uint8_t>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == unknown || b[i] == unknown) continue;
    kept_first += a[i] != 0;
    kept_second += b[i] != 0;
    equal += (a[i] != 0) == (b[i] != 0);
    ++all;
  }
  HostTensor counts = HostTensor::zeros("draws/" + first.name, {DType::f32, {4}});
  const double values[] = {kept_first, kept_second, equal, all};
  for (std::size_t i = 0; i < 4; ++i) counts.as<float>()[i] = static_cast<float>(values[i]);
  return counts;
}

// "draws/<mask>" F32 (4) for each mask of the program: over the elements of which it can be told in two
// further steps, how many the first kept, how many the second kept, in how many the two agree, and how many
// there are. On the executable as it stands, at learning rate 0 and on slot 0; it draws again afterwards.
// Empty without dropout.
std::vector<HostTensor> draw_answers(Executable& executable, const CheckFeeds& feeds) {
  std::vector<HostTensor> answers;
  if (feeds.masks.empty()) return answers;
  executable.supply_masks({});
  const std::int64_t next = feeds.step_count(feeds.steps() - 1) + 1;
  const std::vector<HostTensor> first = drawn(executable, next);
  const std::vector<HostTensor> second = drawn(executable, next + 1);
  for (std::size_t i = 0; i < first.size(); ++i) answers.push_back(counted(first[i], second[i]));
  return answers;
}

namespace fs = std::filesystem;

constexpr const char* masks_name = "masks.safetensors";

HostTensor require(HostTensor tensor, const fs::path& path, DType dtype, std::size_t rank) {
  if (tensor.type.dtype != dtype || tensor.type.shape.size() < rank) {
    throw CellError(fmt::format("[check] {} holds {} where {} of at least {} dimensions is asked",
                                path.string(), to_string(tensor.type), to_string(dtype), rank));
  }
  return tensor;
}

HostTensor read_array(const fs::path& path, DType dtype, std::size_t rank) {
  return require(read_npy(path), path, dtype, rank);
}

// f32, or i32 tokens.
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

HostBatch CheckFeeds::batch() const { return {inputs.bytes.data(), labels.as<std::int32_t>().data()}; }
std::int64_t CheckFeeds::steps() const { return schedule.type.shape.front(); }
double CheckFeeds::learning_rate(std::int64_t step) const {
  return schedule.as<double>()[static_cast<std::size_t>(2 * step)];
}
std::int64_t CheckFeeds::step_count(std::int64_t step) const {
  return static_cast<std::int64_t>(schedule.as<double>()[static_cast<std::size_t>(2 * step + 1)]);
}

CheckFeeds read_check(const fs::path& cell_folder) {
  const fs::path folder = cell_folder / "check";
  CheckFeeds feeds{
      read_safetensors(folder / "parameters.safetensors"), read_inputs(folder / "inputs.npy"),
      read_array(folder / "labels.npy", DType::i32, 1), read_array(folder / "schedule.npy", DType::f64, 2),
      fs::exists(folder / masks_name) ? read_safetensors(folder / masks_name) : std::vector<HostTensor>()};
  if (feeds.labels.type.shape.front() != feeds.inputs.type.shape.front()) {
    throw CellError(fmt::format("[check] {} has inputs {} and labels {}: the batches differ", folder.string(),
                                to_string(feeds.inputs.type), to_string(feeds.labels.type)));
  }
  if (feeds.steps() < 1 || feeds.schedule.type.shape.back() != 2) {
    throw CellError(fmt::format("[check] {} is {}: rows of learning rate and step count are asked",
                                (folder / "schedule.npy").string(), to_string(feeds.schedule.type)));
  }
  return feeds;
}

void write_check_results(Executable& executable, const Program& program, Task task,
                         const fs::path& cell_folder) {
  write_results(cell_folder, "check.safetensors",
                answers_of(program, task)->check(executable, read_check(cell_folder)));
}

void write_verify_results(Executable& executable, const Program& program, Task task,
                          const fs::path& cell_folder) {
  const CheckFeeds feeds = read_check(cell_folder);
  const std::unique_ptr<Answers> asked = answers_of(program, task);
  std::vector<HostTensor> answers = asked->verify(executable, feeds);
  for (HostTensor& tensor : answers) {
    if (tensor.name == "losses") tensor = in_f32(tensor);
  }
  if (asked->draws_masks()) {
    for (HostTensor& draws : draw_answers(executable, feeds)) answers.push_back(std::move(draws));
  }
  write_results(cell_folder, "verify.safetensors", answers);
}

void write_oracle_results(Backend& backend, const Program& program, CompileOptions options,
                          const OracleOptions& oracle, const fs::path& cell_folder) {
  write_results(cell_folder, "oracle.safetensors",
                oracle_answers(backend, program, std::move(options), oracle, read_check(cell_folder)));
}

}  // namespace assay

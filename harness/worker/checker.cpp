#include "harness/worker/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/worker/check_answers.hpp"
#include "harness/worker/draws.hpp"

namespace assay {
namespace {

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

void write_check_results(Executable& executable, const Program& program, std::string_view task,
                         const fs::path& cell_folder) {
  write_results(cell_folder, "check.safetensors",
                check_answers(executable, program, task, read_check(cell_folder)));
}

void write_verify_results(Executable& executable, const Program& program, std::string_view task,
                          const fs::path& cell_folder) {
  const CheckFeeds feeds = read_check(cell_folder);
  std::vector<HostTensor> answers = verify_answers(executable, program, task, feeds);
  for (HostTensor& tensor : answers) {
    if (tensor.name == "losses") tensor = in_f32(tensor);
  }
  if (task == "train" || program.is_op()) {
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

#include "harness/conductor/check/run_results.hpp"

#include <numeric>

#include <nlohmann/json.hpp>

#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {

bool has_run_results(const Program& program, Task task) {
  return !program.trains(task) && !program.draws_masks(task);
}

void write_run_exam(const RunResults& asked, const HostTensor& inputs,
                    const std::filesystem::path& parameters) {
  const auto distinct = static_cast<std::int64_t>(asked.rows.size());
  const std::int64_t samples = inputs.type.shape.front();
  ExamBatches batches{.batch = distinct,
                      .distinct = distinct,
                      .row_of = std::vector<std::int64_t>(asked.rows.size()),
                      .slots = std::vector<std::int64_t>(static_cast<std::size_t>(samples / distinct))};
  std::iota(batches.row_of.begin(), batches.row_of.end(), std::int64_t{0});
  std::iota(batches.slots.begin(), batches.slots.end(), std::int64_t{0});
  std::filesystem::create_directories(asked.exam);
  copy_atomically(parameters, asked.exam / "state.safetensors", false);
  write_npy(asked.exam / "inputs.npy", inputs);
  write_npy(asked.exam / "labels.npy", HostTensor::zeros("labels", {DType::i32, {samples}}));
  HostTensor schedule = HostTensor::zeros("schedule", {DType::f64, {2, 2}});
  schedule.as<double>()[1] = 1;
  schedule.as<double>()[3] = 2;
  write_npy(asked.exam / "schedule.npy", schedule);
  write_atomically(asked.exam / "batches.json", encode(batches).dump() + "\n", false);
}

void write_run_question(const std::filesystem::path& cell_folder, const RunResults& asked) {
  write_new_within(cell_folder, "check/run.json", encode(ExamRun{asked.slots}).dump() + "\n");
}

}  // namespace assay

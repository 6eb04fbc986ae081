#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/check/rebatch.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/graph/graph_json.hpp"
#include "harness/protocol/message.hpp"
#include "harness/protocol/request.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

void write_json(const fs::path& path, const nlohmann::json& json) {
  write_atomically(path, json.dump() + "\n", false);
}

// The first row of each sample, in the order of the samples.
HostTensor distinct_rows(const HostTensor& rows, const CheckBatch& batch) {
  Shape shape = rows.type.shape;
  shape.front() = batch.distinct;
  HostTensor samples = HostTensor::zeros(rows.name, {rows.type.dtype, shape});
  const std::size_t row = rows.bytes.size() / static_cast<std::size_t>(batch.batch);
  for (std::int64_t sample = 0; sample < batch.distinct; ++sample) {
    const auto found = std::find(batch.row_of.begin(), batch.row_of.end(), sample);
    if (found == batch.row_of.end())
      throw std::runtime_error(fmt::format("[oracle] sample {} has no row", sample));
    const auto at = static_cast<std::size_t>(found - batch.row_of.begin());
    std::copy_n(rows.bytes.begin() + static_cast<std::ptrdiff_t>(at * row), row,
                samples.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(sample) * row));
  }
  return samples;
}

}  // namespace

void write_oracle_cell(const fs::path& oracle_folder, const fs::path& cell_folder, const Program& program,
                       const OracleWorker& worker) {
  const CheckBatch batch = read_check_batch(cell_folder);
  const CellRequest asked = read_request(cell_folder / "request.json");
  const CellRequest request{
      .protocol = protocol::version,
      .backend = worker.backend,
      .workload = asked.workload,
      .task = asked.task,
      .mode = worker.mode,
      .precision = "fp64",
      .batch = batch.distinct,
      .threads = worker.threads,
      .deterministic = true,
      .oracle = OracleRequest{.precision = asked.precision, .perturbations = asked.check.perturbations}};

  const fs::path from = cell_folder / "check";
  const fs::path to = oracle_folder / "check";
  fs::create_directories(to);
  write_json(oracle_folder / "request.json", encode(request));
  write_json(oracle_folder / "graph.json", to_json(with_batch(program, batch.distinct)));
  for (const fs::path& target : {to / "parameters.safetensors", oracle_folder / "parameters.safetensors"}) {
    fs::copy_file(from / "parameters.safetensors", target, fs::copy_options::overwrite_existing);
  }
  fs::copy_file(from / "schedule.npy", to / "schedule.npy", fs::copy_options::overwrite_existing);
  write_npy(to / "inputs.npy", distinct_rows(read_npy(from / "inputs.npy"), batch));
  write_npy(to / "labels.npy", distinct_rows(read_npy(from / "labels.npy"), batch));
  if (!fs::exists(from / "masks.safetensors")) return;
  std::vector<HostTensor> masks;
  for (const HostTensor& mask : read_safetensors(from / "masks.safetensors")) {
    masks.push_back(distinct_rows(mask, batch));
  }
  write_safetensors(to / "masks.safetensors", masks);
}

}  // namespace assay

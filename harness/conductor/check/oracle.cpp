#include "harness/conductor/check/oracle.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/graph/passes/walk.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/message.hpp"
#include "harness/protocol/request.hpp"

namespace assay {
namespace {

Graph with_batch(const Graph& graph, std::int64_t batch) {
  GraphCopy copy(graph);
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.producer != none) continue;
    TensorType type = value.type;
    const bool rows = value.role == Role::input || value.role == Role::label || value.role == Role::mask;
    if (rows && !type.shape.empty()) type.shape.front() = batch;
    copy.add_value(static_cast<ValueId>(i), std::move(type));
  }
  for (const Node& node : graph.nodes()) copy.add_node(node);
  copy.add_outputs();
  copy.add_updates();
  return copy.take();
}

}  // namespace

std::int64_t batch_of(const Program& program) {
  if (program.is_op()) return 1;
  const ValueId inputs = program.training.find("inputs");
  if (inputs == none || program.training.value(inputs).type.shape.empty()) {
    throw GraphError(
        fmt::format("graph '{}' has no feed 'inputs' with a batch dimension", program.training.name()));
  }
  return program.training.value(inputs).type.shape.front();
}

Program with_batch(const Program& program, std::int64_t batch) {
  if (batch == batch_of(program)) return program;
  return {with_batch(program.training, batch), with_batch(program.inference, batch), program.optimizer};
}

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
    if (found == batch.row_of.end()) throw CellError(fmt::format("[oracle] sample {} has no row", sample));
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
      .precision = PrecisionKind::fp64,
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

namespace {

constexpr const char* answers_name = "oracle.safetensors";
constexpr const char* digest_name = "sha256";

std::string key_of(const fs::path& oracle_folder, const OracleWorker& worker) {
  std::ostringstream text;
  text << "check " << check_version << '\n';
  // A worker found on the PATH has no file to digest: its name stands for it.
  text << "worker "
       << (fs::is_regular_file(worker.executable) ? sha256_of_file(worker.executable)
                                                  : worker.executable.string())
       << '\n';
  for (const char* file : {"request.json", "graph.json", "check/parameters.safetensors", "check/inputs.npy",
                           "check/labels.npy", "check/schedule.npy"}) {
    text << file << ' ' << sha256_of_file(oracle_folder / file) << '\n';
  }
  const fs::path masks = oracle_folder / "check/masks.safetensors";
  if (fs::exists(masks)) text << "masks " << sha256_of_file(masks) << '\n';
  return sha256(text.str());
}

// Whether the entry holds what was put there.
bool intact(const fs::path& entry) {
  std::ifstream file(entry / digest_name);
  std::string digest;
  if (!(file >> digest) || !fs::is_regular_file(entry / answers_name)) return false;
  return sha256_of_file(entry / answers_name) == digest;
}

// Into a folder of its own that is then renamed, so that nobody sees half of it.
void keep(const fs::path& answers, const fs::path& entry) {
  const fs::path temporary = entry.string() + fmt::format(".{}", ::getpid());
  fs::remove_all(temporary);
  fs::create_directories(temporary);
  fs::copy_file(answers, temporary / answers_name);
  std::ofstream file(temporary / digest_name);
  file << sha256_of_file(answers) << '\n';
  file.close();
  std::error_code failure;
  if (file) {
    fs::remove_all(entry, failure);
    fs::rename(temporary, entry, failure);  // another process may have been faster; its entry is as good
  }
  fs::remove_all(temporary, failure);
}

}  // namespace

OracleCache::OracleCache(fs::path folder) : folder_(std::move(folder)) {}

fs::path OracleCache::answers(const fs::path& cell_folder, const Program& program, const OracleWorker& worker,
                              const fs::path& scratch, const Run& run) const {
  fs::remove_all(scratch);
  write_oracle_cell(scratch, cell_folder, program, worker);
  const fs::path entry = folder_.empty() ? fs::path() : folder_ / key_of(scratch, worker);
  const fs::path answers = scratch / "results" / answers_name;
  try {
    if (!entry.empty() && intact(entry)) {
      // A copy, because another process may replace the entry while it is read.
      fs::create_directories(answers.parent_path());
      fs::copy_file(entry / answers_name, answers);
      return answers;
    }
  } catch (const std::runtime_error&) {
    fs::remove(answers);  // unreadable is as good as absent
  }

  run(scratch);
  TensorFile::read(answers);  // throws when there is nothing of use
  try {
    if (!entry.empty()) keep(answers, entry);
  } catch (const std::runtime_error&) {
    // A cache that cannot be written costs time, not the run.
  }
  return answers;
}

}  // namespace assay

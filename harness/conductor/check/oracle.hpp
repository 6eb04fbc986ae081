// The oracle's answers for a cell: the same program for another number of samples a batch, the folder in which the
// answers are made, and the cache that makes them once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "harness/core/paths.hpp"
#include "harness/graph/program.hpp"

namespace assay {

// Samples of a batch: the outermost dimension of the inputs. Throws GraphError when the program has none.
std::int64_t batch_of(const Program& program);

// Inputs and labels with `batch` rows, every other shape inferred again; names stay. Throws GraphError when
// an op has the batch written into its attributes.
Program with_batch(const Program& program, std::int64_t batch);
// The number of the check's rules. It rises when the questions or the way of answering change and no digest shows it.
inline constexpr int check_version = 6;

// The worker that gives the answers: the backend whose backend.json says "oracle": true.
struct OracleWorker {
  std::string backend = "reference";
  std::string mode;                  // one of its modes
  std::filesystem::path executable;  // its digest is part of the key of the cache
  int threads = 1;
};

// What the oracle is asked.
struct OracleQuestion {
  std::filesystem::path exam;  // the folder of write_exam()
  Task task = Task::train;
  PrecisionKind precision = PrecisionKind::fp32;  // the policy of the cell that is judged
  int perturbations = 4;
};

// Writes the folder in which an oracle answers: request.json (precision fp64, the batch of the distinct samples, and
// "oracle": {"precision", "perturbations", "seed"}), graph.json, parameters.safetensors and check/. `program` is the
// cell's own. Throws CellError.
void write_oracle_cell(const std::filesystem::path& oracle_folder, const OracleQuestion& question,
                       const Program& program, const OracleWorker& worker);

// Answers by the digest of the oracle's folder, of its worker's executable and of the version of this check.
// Several processes may share a cache: entries appear whole or not at all.
class OracleCache {
 public:
  // Makes the folder on first use; one that cannot be written is no error, the answers then stay in the
  // cell's folder.
  explicit OracleCache(std::filesystem::path folder = cache_folder() / "oracle");

  // Runs the worker in the prepared folder: hello, {"command": "oracle"}, judged, quit. Throws when that
  // fails.
  using Run = std::function<void(const std::filesystem::path& oracle_folder)>;

  // The path of oracle.safetensors, from the cache or by `run` in `scratch` (made, and emptied before), and whether it
  // was in the cache. An entry that is damaged is made again. Throws what `run` throws, and CellError when it leaves no
  // answers.
  struct Answers {
    std::filesystem::path file;
    bool cached = false;
  };
  Answers answers(const OracleQuestion& question, const Program& program, const OracleWorker& worker,
                  const std::filesystem::path& scratch, const Run& run) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace assay

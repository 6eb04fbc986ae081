// The oracle's answers for a cell: the same program for another number of samples in a batch, the folder in
// which the oracle answers, and the cache of the answers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/core/paths.hpp"
#include "harness/graph/passes/batch.hpp"
#include "harness/graph/program.hpp"

namespace assay {

// The version of the check's rules. Increase it if the questions or the answers change and no digest shows
// the change.
inline constexpr int check_version = 18;

// The worker that answers: the backend whose backend.json has "oracle": true.
struct OracleWorker {
  std::string backend = "reference";
  std::string mode;                  // one of its modes
  std::vector<std::string> command;  // the digests of all files in it are part of the cache key
  int threads = 1;
};

// The question to the oracle.
struct OracleQuestion {
  std::filesystem::path exam;  // the folder of write_exam()
  Task task = Task::train;
  PrecisionKind precision = PrecisionKind::fp32;  // the precision of the judged cell
  int perturbations = 4;
  int slices = 1;  // in which the ranks of the cell normalise each batch: slices_of()
};

// The parts of each batch that are normalised by their own statistics: one for each rank if the program has batch norm,
// else one.
int slices_of(const Program& program, int ranks);

// Writes the folder in which an oracle answers: request.json (precision fp64, the batch of the distinct
// samples, and "oracle": {"precision", "perturbations", "seed"}), graph.json, parameters.safetensors and
// check/. `program` is the cell's own. Throws CellError.
void write_oracle_cell(const std::filesystem::path& oracle_folder, const OracleQuestion& question,
                       const Program& program, const OracleWorker& worker);

// Caches answers by the digest of the oracle's folder, of the worker's command with the files in it, and the version of
// this check. Several processes may share a cache: an entry is complete or absent. When it is full, the entries that
// were not used for longest are removed.
class OracleCache {
 public:
  // Creates the folder on first use; if it cannot be written, the answers stay in the cell's folder. The usual size
  // has room for both sets of questions of gpt2-small.
  explicit OracleCache(std::filesystem::path folder = cache_folder() / "oracle",
                       std::uintmax_t max_bytes = std::uintmax_t{16} << 30);

  // Runs the worker in the prepared folder: hello, {"command": "oracle"}, judged, quit. Throws if that fails.
  using Run = std::function<void(const std::filesystem::path& oracle_folder)>;

  // The path of oracle.safetensors, from the cache or made by `run` in `scratch` (created, or emptied), and
  // whether it was in the cache. Replaces a damaged entry. Throws what `run` throws, and CellError if it
  // leaves no answers.
  struct Answers {
    std::filesystem::path file;
    bool cached = false;
    std::filesystem::path entry{};  // its place in the cache; empty without a cache
  };
  Answers answers(const OracleQuestion& question, const Program& program, const OracleWorker& worker,
                  const std::filesystem::path& scratch, const Run& run) const;

  // For answers that nobody will ask for again.
  static void forget(const Answers& answers);

  // Which of several draws of an exam is the sharpest, if that was noted in the last month. `exam`: a name for a file.
  // A note that cannot be written only costs time.
  std::optional<int> sharpest_draw(const std::string& exam) const;
  void note_sharpest_draw(const std::string& exam, int draw) const;

 private:
  std::filesystem::path folder_;
  std::uintmax_t max_bytes_;
};

}  // namespace assay

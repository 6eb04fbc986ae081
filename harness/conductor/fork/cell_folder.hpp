// A cell folder (docs/reference/protocol.md): writes the files for the worker and reads its measurements.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "harness/batch/manifest.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/ranks.hpp"
#include "harness/conductor/data/preparation.hpp"
#include "harness/conductor/fork/published_weights.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Prepared data sets of a run, each prepared once.
class DatasetShelf {
 public:
  // `note` gets a line before something takes long.
  explicit DatasetShelf(std::vector<std::filesystem::path> folders,
                        std::function<void(const std::string&)> note = nullptr);
  // Throws as prepare_dataset does, and IoError if the files are not those of another shape of the set. The reference
  // lives as long as this.
  const PreparedDataset& get(const Cell& cell);

 private:
  PrepareOptions options_;
  std::map<std::string, PreparedDataset> sets_;
};

inline constexpr int perturbations = 4;  // perturbed runs of the oracle

// The cell's id as the name of a file.
std::string file_name_of(const Cell& cell);

// `place`: that of the worker among the cell's ranks.
nlohmann::json request_json(const Cell& cell, std::uint64_t seed, const RankPlace& place = {});
// The settings of clock, loader, check, threads and memory limits, given or default, for the report.
nlohmann::json settings_in_force(const Cell& cell);

// The purpose of the folder; a check does not need a data set.
enum class FolderPurpose { check, run };

// Writes the folder of a cell. Files that are the same for all backends depend only on (program of the cell,
// seed), and on the exam's folder, which is copied (empty: none); with --initial own the initial values also
// depend on the backend. Makes the folder; it must be empty if it
// exists. `weights`: published initial parameters, or null. `place`: that of the worker among the cell's ranks; the
// request, the graph, the plans and the exam of one of several ranks have its share of the cell's batch. `state`: a
// safetensors file with what the worker starts from, in place of drawn values. Throws IoError and the errors of the data
// set.
void write_cell_folder(const std::filesystem::path& folder, const Cell& cell, FolderPurpose purpose,
                       std::uint64_t seed, const std::filesystem::path& exam, DatasetShelf& data,
                       const PublishedWeights* weights = nullptr, const RankPlace& place = {},
                       const std::filesystem::path& state = {});

// results/clock.json: the measurements of the batch library in the worker.

// Fills blocks, evaluations and latencies of the fork; sets a flag if the warm-up did not become steady.
// has_loss: task train; there a loss of null means that it was not finite. Throws JsonError with the file and
// the field; the file is missing if the worker did not close its supply.
void read_clock(const std::filesystem::path& file, bool has_loss, Fork& fork);

}  // namespace assay

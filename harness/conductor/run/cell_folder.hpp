// A cell folder (docs/reference/protocol.md): writes what a worker finds there, and reads what it measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "harness/batch/manifest.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/data/preparation.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Prepared data sets of a run, each prepared once.
class DatasetShelf {
 public:
  explicit DatasetShelf(std::vector<std::filesystem::path> folders);
  // Throws as prepare_dataset does. The reference lives as long as this.
  const PreparedDataset& get(const Cell& cell, const Program& program);

 private:
  PrepareOptions options_;
  std::map<std::string, PreparedDataset> sets_;
};

inline constexpr int perturbations = 4;  // perturbed runs of the oracle

// The cell's id as the name of a file.
std::string file_name_of(const Cell& cell);

nlohmann::json request_json(const Cell& cell, std::uint64_t seed);
// How the cell is timed, loaded, checked and limited, given or by default: for the report.
nlohmann::json settings_in_force(const Cell& cell);

// What the folder is for: the check alone needs no data set.
enum class FolderPurpose { check, run };

// Everything that is equal between backends is a function of (cell's program, seed), and a copy of the exam's folder
// (empty: none). Makes the folder; it must be empty. Throws IoError and what the data set throws.
void write_cell_folder(const std::filesystem::path& folder, const Cell& cell, const Program& program,
                       FolderPurpose purpose, std::uint64_t seed, const std::filesystem::path& exam,
                       DatasetShelf& data);

// results/clock.json: what the batch library measured in the worker.

// Fills blocks, evaluations and latencies of the fork; a warm-up that never became steady sets its flag.
// has_loss: task train; a loss that is null was not finite then. Throws JsonError naming the file and the
// field: a worker that did not close its session leaves none.
void read_clock(const std::filesystem::path& file, bool has_loss, Fork& fork);

}  // namespace assay

// Chooses what a worker that does not train is asked about its run: run_results.hpp.
#pragma once

#include <cstdint>
#include <filesystem>

#include "harness/conductor/check/run_results.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Reads the rows that the run's steps read from its cell folder, and writes the oracle's question into `exam`. All
// slots are asked if they are few, else some of them, among them that of the last step; of each batch two rows. Slots
// and rows are drawn from `seed`, which the worker must not know while it is timed. has_run_results() must hold.
// Throws IoError.
RunResults question_of_run(const Cell& cell, const Fork& fork, const std::filesystem::path& cell_folder,
                           const std::filesystem::path& exam, std::uint64_t seed);

}  // namespace assay

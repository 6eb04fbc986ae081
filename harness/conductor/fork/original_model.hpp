// Mode `original` of the runtimes: they run the user's own ONNX file instead of one that Assay writes.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/fork/published_weights.hpp"

namespace assay {

inline constexpr const char* original_mode = "original";

// Cells of mode `original` that cannot run the file become `unsupported`, with the reason: the file has other weights than
// the cell, or another batch. weights: of the run; null if it has none.
void mark_without_original(std::vector<Cell>& cells, const PublishedWeights* weights);

// Writes original.onnx and original.json. Throws IoError or JsonError. Precondition: the cell runs an imported network.
void write_original(const std::filesystem::path& cell_folder, const Cell& cell);

}  // namespace assay

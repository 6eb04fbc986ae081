// The exam of several ranks, which train one model together: each takes the exam on its part of every batch, and
// their answers are joined to those of whole batches.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/conductor/check/expected_tensors.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {

// The rows of one of `world` ranks, which are next to each other, with their samples. Throws CellError if another rank
// has one of these samples.
ExamBatches part_of(const ExamBatches& whole, int rank, int world);

// Copies an exam of write_exam() for one rank: batches.json, inputs.npy, labels.npy and the masks have only its part of
// each batch. Throws IoError and CellError.
void write_exam_of_rank(const std::filesystem::path& exam, const std::filesystem::path& folder, int rank,
                        int world);

// The type of a tensor in the file of one of `world` ranks.
TensorType type_of_rank(const ExpectedTensor& expected, std::size_t world);

// Gives every rank's file the mean of the ranks' losses, and logits and drawn masks of all rows in their order. Leaves a
// tensor as it is if only the first rank's is judged, or if it is missing or malformed in one of the files.
void join_answers(std::vector<TensorFile>& ranks, const std::vector<ExpectedTensor>& tensors);

}  // namespace assay

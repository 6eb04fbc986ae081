// What an exam is made of; internal to write_exam(). All of it depends only on the arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/conductor/check/exam.hpp"
#include "harness/core/tensor.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {

// absent: a class that no sample of the first batch has, if there is one.
std::vector<HostTensor> state_of(const Program& program, const ExamPlan& plan,
                                 std::optional<std::int64_t> absent);
// The bias of the last layer with the extreme logit in a class that the first sample does not have; empty without such
// a bias. If all samples had that class, the loss would be zero, and an answer nothing but rounding.
std::vector<HostTensor> extreme_of(const Program& program, const std::vector<HostTensor>& state,
                                   std::int32_t first_label);

// The rows of several ranks, one rank after the other: each rank has samples that no other one has, so that a rank which
// reads another one's rows is found. Row r of a batch is sample row_of[r].
std::vector<std::int64_t> shuffled_rows_of_ranks(std::int64_t batch, std::int64_t distinct, int ranks,
                                                 std::uint64_t seed);
// The distinct samples of all batches.
HostTensor inputs_of(const Graph& graph, const ExamBatches& batches, std::uint64_t seed);
// Masks are data in an exam: drawn once for each distinct sample of a batch, the same in every batch.
std::vector<HostTensor> masks_of(const Graph& graph, const ExamBatches& batches, std::uint64_t seed);

// A label for each position, drawn from all classes. The first sample has the first and the last class.
HostTensor labels_of_positions(Shape shape, std::int64_t classes, std::int64_t samples, std::uint64_t seed);
// Drawn labels, with as many classes as there can be: the first batch has the first and the last class, and leaves one
// class out, which shows the epsilon. (With one sample in a batch, the second batch has the other of the two.) No batch has
// only one label, so that labels of other samples show.
HostTensor labels_of(std::int64_t classes, const ExamBatches& batches, std::uint64_t seed);
// The last class that no sample of the first batch has.
std::optional<std::int64_t> absent_class(const HostTensor& labels, std::int64_t batches,
                                         std::int64_t classes);

// (1 + steps, 2): a learning rate and the number of the step.
HostTensor schedule_of(const Program& program, std::int64_t steps, std::uint64_t turn, std::uint64_t seed);

}  // namespace assay

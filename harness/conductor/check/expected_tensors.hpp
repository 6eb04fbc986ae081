// Which tensors an exam must find in the worker's file: docs/reference/protocol.md, "The exam".
#pragma once

#include <string>
#include <vector>

#include "harness/graph/program.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {

struct ExpectedTensor {
  std::string name;
  Shape shape;              // as the worker writes it
  std::string parameter{};  // to whose state it belongs; empty: it is not a state
  bool rows = false;        // has one row per sample of each batch; the oracle has only the distinct samples
  bool mean = false;        // a mean over the rows of a batch: the loss
  bool summed = false;      // summed over the batch
  bool draws = false;       // masks (U8) that the program drew in two steps, judged by their distribution
  bool square = false;      // a mean of squares: judged by its root
  // Depends on the running statistics after a step. Of several ranks, only the first one's are used, so only its answer
  // is judged.
  bool of_first_rank = false;
};

// extreme: the exam has a step with an extreme logit.
std::vector<ExpectedTensor> expected_tensors(const Program& program, Task task, const ExamBatches& batches,
                                             bool extreme);

// A tensor of the state that a network trains.
struct StateTensor {
  std::string name;
  Shape shape;
  std::string parameter{};  // itself, or that of the moment; empty: a running statistic
};
// Each parameter with its moments, then the running statistics.
std::vector<StateTensor> state_tensors(const Program& program);
// Their size in F32.
std::int64_t state_bytes(const Program& program);

}  // namespace assay

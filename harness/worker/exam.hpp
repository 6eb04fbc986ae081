// The worker's side of the exam: runs what the commands verify and oracle ask and writes down what it saw. It judges
// nothing; harness/conductor/check does. docs/reference/protocol.md, "The exam", is the contract of the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harness/core/tensor.hpp"
#include "harness/protocol/exam_files.hpp"
#include "harness/worker/backend.hpp"

namespace assay {

// A batch of the exam in host memory.
struct FedBatch {
  HostTensor inputs;  // F32 (B, ...), I32 where they are tokens
  HostTensor labels;  // I32 (B)

  HostBatch host() const { return {inputs.bytes.data(), labels.as<std::int32_t>().data()}; }
};

// What the conductor laid into check/ of the cell folder.
struct ExamFeeds {
  std::vector<HostTensor> state;    // F32: parameters, running statistics, moments
  HostTensor inputs;                // the samples of all batches, one after the other
  HostTensor labels;                // I32, of each sample
  HostTensor schedule;              // F64 (1 + k, 2): learning rate, step count
  std::vector<HostTensor> masks;    // U8, a row for each distinct sample of a batch; none without dropout
  std::vector<HostTensor> extreme;  // what replaces tensors of the state for the step with an extreme logit
  ExamBatches batches;
  std::optional<ExamContinuation> continuation;  // absent: none is asked
  std::optional<ExamReplay> replay;              // absent: none is asked

  // The rows of a batch. Where a sample stands more than once, its further rows are off by one rounding here and
  // there, so that no two rows are equal.
  FedBatch batch(std::int64_t number) const;
  // The masks with a row for each row of a batch.
  std::vector<HostTensor> batch_masks() const;
  std::int64_t steps() const { return schedule.type.shape.front() - 1; }
  double learning_rate(std::int64_t row) const;  // row 0: of the step that is looked at alone
  std::int64_t step_count(std::int64_t row) const;
};

// Throws CellError naming the file that is missing or malformed.
ExamFeeds read_exam(const std::filesystem::path& cell_folder);

// Command verify: the continuation and the replay of what ran, and the exam; writes results/verify.safetensors.
// last_step: the number of the last step that ran, which left the state and batches in the slots; absent: nothing ran.
// The state and the slots afterwards are the exam's.
void write_exam_results(Executable& executable, const Program& program, Task task,
                        std::optional<std::int64_t> last_step, const std::filesystem::path& cell_folder);

// `oracle` of request.json.
struct OracleOptions {
  Precision emulated;  // the policy of the cell that is judged
  int perturbations =
      4;  // runs in that policy, each with parameters and inputs perturbed by about its rounding
  std::uint64_t seed = 1;  // of the perturbations
};

// Command oracle: answers in fp64 and the errors of the perturbed runs; writes results/oracle.safetensors.
// `options` are those of the oracle's own cell, whose precision is fp64. Compiles twice.
void write_oracle_results(Backend& backend, const Program& program, CompileOptions options,
                          const OracleOptions& oracle, const std::filesystem::path& cell_folder);

// What a program answers to the exam: a network and a single op do it differently.
class Answers {
 public:
  virtual ~Answers() = default;

  // The tensors that are compared with the oracle's, losses in F64. Leaves the executable as the last step left it.
  virtual std::vector<HostTensor> exam(Executable& executable, const ExamFeeds& feeds) const = 0;
  // Whether the timed step draws the masks, where the program has any.
  virtual bool draws_masks() const = 0;
  // The parts of `inputs` that stand for real numbers: what a perturbation moves.
  virtual std::vector<std::span<float>> real_inputs(HostTensor& inputs) const = 0;
};

// Borrows the program.
std::unique_ptr<Answers> answers_of(const Program& program, Task task);

// "continuation/...": how far two runs of the same steps from the present state are apart, one without a pause, and one
// from a copy of that state that waits for each step. On the batches that lie in the exam's slots; `first` is the number
// of the first of the steps. The feeds have a continuation.
std::vector<HostTensor> continue_run(Executable& executable, const ExamFeeds& feeds, std::int64_t first);

// "replay/losses" F32 (2, n): the first steps of the run once more, twice, from the parameters and on the resident batches
// of the cell folder, waiting for each step; the loss after each number of steps that is asked. Throws CellError where
// the cell has no resident batches or its schedule is shorter.
HostTensor replay_run(Executable& executable, const ExamReplay& asked,
                      const std::filesystem::path& cell_folder);

// Of results/oracle.safetensors: Answers::exam() and the gradients of the first step in F64, bound/<name>, and state/<name>
// of the biases that it moved, see sharpen().
std::vector<HostTensor> oracle_answers(Backend& backend, const Program& program, CompileOptions options,
                                       const OracleOptions& oracle, const ExamFeeds& feeds);

}  // namespace assay

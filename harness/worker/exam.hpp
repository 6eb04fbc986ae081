// The worker's side of the exam: runs the commands verify and oracle and writes their results. It does not
// judge them; harness/conductor/check does. docs/reference/protocol.md, "The exam", is the contract of the
// files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harness/core/io/philox.hpp"
#include "harness/core/tensor.hpp"
#include "harness/protocol/exam_files.hpp"
#include "harness/worker/backend.hpp"
#include "harness/worker/trainer.hpp"

namespace assay {

// A batch of the exam in host memory.
struct FedBatch {
  HostTensor inputs;  // F32 (B, ...), I32 for tokens
  HostTensor labels;  // I32 (B) or (B, T)

  HostBatch host() const { return {inputs.bytes.data(), labels.as<std::int32_t>().data()}; }
};

// The files that the conductor wrote to check/ of the cell folder.
struct ExamFeeds {
  std::vector<HostTensor> state;    // F32: parameters, running statistics, moments
  HostTensor inputs;                // the samples of all batches, one after the other
  HostTensor labels;                // I32, of each sample
  HostTensor schedule;              // F64 (1 + k, 2): learning rate, step count
  std::vector<HostTensor> masks;    // U8, a row for each distinct sample of a batch; none without dropout
  std::vector<HostTensor> extreme;  // replaces tensors of the state in the step with an extreme logit
  ExamBatches batches;
  std::optional<ExamContinuation> continuation;  // absent: not requested
  std::optional<ExamRun> run;                    // absent: not requested
  std::optional<ExamExcerpt> excerpt;            // absent: the continuation hands over whole tensors

  // The rows of a batch. If a sample occurs several times, its further rows differ by one rounding in some
  // elements, so that no two rows are equal.
  FedBatch batch(std::int64_t number) const;
  // The masks with a row for each row of a batch.
  std::vector<HostTensor> batch_masks() const;
  std::int64_t steps() const { return schedule.type.shape.front() - 1; }
  double learning_rate(std::int64_t row) const;  // row 0: of the step that is examined on its own
  std::int64_t step_count(std::int64_t row) const;
};

// Stages batches from one buffer, as a run does. Afterwards the buffer has other numbers: an executable that keeps a
// view instead of a copy then computes with these. Borrows the executable.
class StagingBuffer {
 public:
  explicit StagingBuffer(Executable& executable) : executable_(executable) {}
  void stage(std::int64_t slot, const FedBatch& batch);

 private:
  Executable& executable_;
  FedBatch buffer_{};
};

// Moves about one of `one_in` values, drawn at random, by a rounding towards zero.
void nudge(std::span<float> values, std::uint64_t one_in, Philox& random);

// Puts `next` behind the tensors of its name in `all`, which are `count` in the end, along a new first dimension.
void stack(std::vector<HostTensor>& all, const HostTensor& next, std::int64_t count);

// Throws CellError naming a file that is missing or malformed.
ExamFeeds read_exam(const std::filesystem::path& cell_folder);

// Command verify: the continuation of the run, and the exam; writes
// results/verify.safetensors. run: the last one, which left the state and batches in the slots; absent: nothing
// ran. Afterwards the state and the slots are those of the exam.
void write_exam_results(Executable& executable, const Program& program, Task task,
                        const std::optional<Trained>& run, const std::filesystem::path& cell_folder);

// `oracle` of request.json.
struct OracleOptions {
  Precision emulated;  // the policy of the cell that is judged
  int perturbations =
      4;  // runs in that policy, each with parameters and inputs perturbed by about its rounding error
  std::uint64_t seed = 1;  // of the perturbations
  int slices = 1;          // equal parts of a batch that batch norm normalises, one for each rank
};

// Command oracle: answers in fp64 and the errors of the perturbed runs; writes results/oracle.safetensors.
// `options` are those of the oracle's own cell, whose precision is fp64. Compiles twice.
void write_oracle_results(Backend& backend, const Program& program, CompileOptions options,
                          const OracleOptions& oracle, const std::filesystem::path& cell_folder);

// A program's answers to the exam: networks and single ops answer differently.
class Answers {
 public:
  virtual ~Answers() = default;

  // The tensors that are compared with the oracle's, losses in F64. The executable keeps the state after its
  // last step.
  virtual std::vector<HostTensor> exam(Executable& executable, const ExamFeeds& feeds) const = 0;
  // "run/last/<result>" of the last step, "run/read/<result>" of what was read of the run, and "run/<result>"
  // (slots, ...) of a step on each of these slots, with the present state.
  virtual std::vector<HostTensor> run(Executable& executable, std::span<const std::int64_t> slots,
                                      std::vector<HostTensor> read) const = 0;
  // Whether the timed step draws the masks, if the program has any.
  virtual bool draws_masks() const = 0;
  // The parts of `inputs` that are real numbers: a perturbation changes only these.
  virtual std::vector<std::span<float>> real_inputs(HostTensor& inputs) const = 0;
};

// The "first/..." of the exam of a network that trains, without the rest of it.
std::vector<HostTensor> first_step_answers(Executable& executable, const Program& program,
                                           const ExamFeeds& feeds);

// Borrows the program.
std::unique_ptr<Answers> answers_of(const Program& program, Task task);
// The answers to the exam of task decode by an executable of task infer: without caches, from all tokens of a
// sample at once. The oracle answers so.
std::unique_ptr<Answers> answers_without_caches(const Program& program);

// "continuation/<run>/<tensor>" F32: the states after the same steps, by run. One step is made before them: "start" is
// the state after it, "continuation/loss" its loss. "unwaited" continues without a pause. "waited" begins from a copy of
// that state and waits for each step. If the two differ, "near_1" and "near_2" do as "waited", from copies that are a
// rounding apart: they show how far roundings take the program. The steps use the batches in the exam's slots; `first`
// is the number of the first step. The feeds must have a continuation.
std::vector<HostTensor> continue_run(Executable& executable, const ExamFeeds& feeds, std::int64_t first);

// The tensors of results/oracle.safetensors: Answers::exam() and the gradients of the first step in F64,
// bound/<name>, flips/<name>, ties/<op>, and state/<name> of the biases that it moved, see sharpen().
std::vector<HostTensor> oracle_answers(Backend& backend, const Program& program, CompileOptions options,
                                       const OracleOptions& oracle, const ExamFeeds& feeds);

}  // namespace assay

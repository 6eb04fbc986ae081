// The worker's side of the exam: does what its script says, for the commands verify and oracle. It does not judge;
// harness/conductor/check does. docs/reference/protocol.md, "The exam", is the contract of the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "harness/core/tensor.hpp"
#include "harness/exam/feeds.hpp"
#include "harness/exam/script.hpp"
#include "harness/worker/backend.hpp"
#include "harness/worker/trainer.hpp"

namespace assay {

inline HostBatch host_of(const FedBatch& batch) {
  return {batch.inputs.bytes.data(), batch.labels.as<std::int32_t>().data()};
}

// Does every action of the script. `read`: the results that were asked for last while it ran.
void sit(ExamScript& script, Executable& executable, const Program& program,
         const std::vector<HostTensor>& read = {});

// The part of the exam that the oracle answers, too, by an executable of that task; losses are F64.
std::vector<HostTensor> exam_answers(Executable& executable, const Program& program, Task task,
                                     const ExamFeeds& feeds, ExamPart part = ExamPart::compared);

// The parts of an exam's inputs that are real numbers: a perturbation changes only these.
std::vector<std::span<float>> real_inputs(const Program& program, Task task, HostTensor& inputs);

// Command verify: writes results/verify.safetensors. run: the last one, which left the state and batches in the slots;
// absent: nothing ran. Afterwards the state and the slots are those of the exam.
void write_exam_results(Executable& executable, const Program& program, const std::optional<Trained>& run,
                        const std::filesystem::path& cell_folder);

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

// The tensors of results/oracle.safetensors: exam_answers() and the gradients of the first step in F64,
// bound/<name>, flips/<name>, ties/<op>, and state/<name> of the biases that it moved, see sharpen().
std::vector<HostTensor> oracle_answers(Backend& backend, const Program& program, CompileOptions options,
                                       const OracleOptions& oracle, const ExamFeeds& feeds);

}  // namespace assay

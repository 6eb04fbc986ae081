// The worker's side of the equivalence check: runs what the commands check, verify and oracle ask and writes
// down what it saw. It judges nothing; harness/check does. docs/protocol.md, "What the checks write", is the
// contract of the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "harness/core/tensor.hpp"
#include "harness/worker/backend.hpp"

namespace assay {

// What the conductor laid into check/ of the cell folder.
struct CheckFeeds {
  std::vector<HostTensor> parameters;  // F32, parameters and state, none zero or one
  HostTensor inputs;                   // F32 (B, ...)
  HostTensor labels;                   // I32 (B)
  HostTensor schedule;                 // F64 (k, 2): learning rate, step count from 1
  std::vector<HostTensor> masks;       // U8, one for each value of role mask; none without dropout

  HostBatch batch() const;
  std::int64_t steps() const;
  double learning_rate(std::int64_t step) const;  // step from 0
  std::int64_t step_count(std::int64_t step) const;
};

// Throws CellError naming the file that is missing or malformed.
CheckFeeds read_check(const std::filesystem::path& cell_folder);

// Command check: evaluation, gradients and one step; writes results/check.safetensors. The executable was
// compiled with options.check (task infer: need not be). Its state afterwards is the check's.
void write_check_results(Executable& executable, const Program& program, Task task,
                         const std::filesystem::path& cell_folder);

// Command verify, on the executable that was timed: sets the check's parameters and moments, runs the k
// steps of check/schedule.npy, writes results/verify.safetensors; then, with dropout, two steps that draw.
// Its state and slot 0 afterwards are the check's.
void write_verify_results(Executable& executable, const Program& program, Task task,
                          const std::filesystem::path& cell_folder);

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

// The tensors of the checks, made on an executable: docs/protocol.md, "What the checks write".

// What a program answers to the check: a network and a single op do it differently.
class Answers {
 public:
  virtual ~Answers() = default;

  // All of results/check.safetensors. Leaves the executable after one step from the check's state.
  virtual std::vector<HostTensor> check(Executable& executable, const CheckFeeds& feeds) const = 0;
  // Of results/verify.safetensors all but the draws, "losses" in F64. Leaves the executable after the k steps.
  virtual std::vector<HostTensor> verify(Executable& executable, const CheckFeeds& feeds) const = 0;
  // Of results/oracle.safetensors what is compared, under check/ and verify/. The updated values are not in it: the
  // judge recomputes the step.
  virtual std::vector<HostTensor> oracle(Executable& executable, const CheckFeeds& feeds) const = 0;
  // Whether the timed step draws the masks, where the program has any.
  virtual bool draws_masks() const = 0;
  // The parts of `inputs` that stand for real numbers: what a perturbation moves.
  virtual std::vector<std::span<float>> real_inputs(HostTensor& inputs) const = 0;
};

// Borrows the program.
std::unique_ptr<Answers> answers_of(const Program& program, Task task);

// Of results/oracle.safetensors: Answers::oracle() in F64, and bound/<name>.
std::vector<HostTensor> oracle_answers(Backend& backend, const Program& program, CompileOptions options,
                                       const OracleOptions& oracle, const CheckFeeds& feeds);

}  // namespace assay

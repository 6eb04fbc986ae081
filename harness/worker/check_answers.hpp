// The tensors of the checks, made on an executable: docs/protocol.md, "What the checks write".
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "harness/worker/checker.hpp"

namespace assay {

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

// The tensors of the checks, made on an executable: docs/protocol.md, "What the checks write".
#pragma once

#include "harness/worker/checker.hpp"

namespace assay {

// Of results/check.safetensors what comes before the step: logits, loss, gradients, running statistics.
std::vector<HostTensor> gradient_answers(Executable& executable, const Program& program, Task task,
                                         const CheckFeeds& feeds);
// All of results/check.safetensors. Leaves the executable after one step from the check's state.
std::vector<HostTensor> check_answers(Executable& executable, const Program& program, Task task,
                                      const CheckFeeds& feeds);
// Of results/verify.safetensors, "losses" in F64. Leaves the executable after the k steps.
std::vector<HostTensor> verify_answers(Executable& executable, const Program& program, Task task,
                                       const CheckFeeds& feeds);
// Of results/oracle.safetensors: gradient_answers() and verify_answers() in F64 under check/ and verify/ (the
// judge recomputes the step), and bound/<name>.
std::vector<HostTensor> oracle_answers(Backend& backend, const Program& program, CompileOptions options,
                                       const OracleOptions& oracle, const CheckFeeds& feeds);

}  // namespace assay

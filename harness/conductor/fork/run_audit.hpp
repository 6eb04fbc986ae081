// What is asked about a finished run, and what other programs compute of it: check/audit.hpp.
#pragma once

#include <filesystem>

#include "harness/conductor/check/audit.hpp"
#include "harness/conductor/fork/fork_context.hpp"

namespace assay {

// Whether the worker hands its state over after the run: a network that trains alone, with a state that is not too large
// to be written and read.
bool hands_over(const Cell& cell);

// What the exam in this folder check/ asks for of each tensor of the state after a step; absent: all of it.
std::optional<ExamExcerpt> choose_excerpt(const Program& program, const std::filesystem::path& check);

// Chooses what is asked, now that the worker cannot know it while it is timed. `folder`: of the cell's first worker.
RunAudit ask_about_run(const Cell& cell, const Fork& fork, const std::filesystem::path& folder,
                       const ForkContext& context);

// After the worker has answered: lets the oracle and another backend compute the same. If they cannot, the fork gets a
// warning.
void compute_audit(RunAudit& audit, const Cell& cell, Fork& fork, const std::filesystem::path& folder,
                   const ForkContext& context);

}  // namespace assay

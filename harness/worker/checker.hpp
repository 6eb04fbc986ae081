// The worker's side of the equivalence check: runs what the commands check, verify and oracle ask and writes
// down what it saw. It judges nothing; harness/check does. docs/protocol.md, "What the checks write", is the
// contract of the files.
#pragma once

#include <cstdint>
#include <filesystem>
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

}  // namespace assay

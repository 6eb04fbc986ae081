// What a run without training computed: its results on its own batches, with its own weights, which nothing has set
// again. The worker is asked after the run, and the oracle computes some rows of each batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "harness/core/tensor.hpp"
#include "harness/graph/program.hpp"

namespace assay {

struct RunResults {
  std::filesystem::path exam;         // the question to the oracle: the chosen rows of each batch
  std::filesystem::path answers{};    // the oracle's
  std::vector<std::int64_t> slots{};  // that the worker computes again; empty: each step was given its batch
  std::vector<std::int64_t> rows{};   // that are judged, of every batch, ascending
  std::size_t last = 0;               // the oracle's batch that the last step computed
  // The results that were read of the run last.
  struct Read {
    std::size_t batch = 0;   // the oracle's
    std::int64_t token = 0;  // of task decode, from 1; those of the prompt are 0
  };
  std::optional<Read> read{};
};

// Whether the results of such a program can be compared: it does not train a network, and draws no masks.
bool has_run_results(const Program& program, Task task);

// Writes `asked.exam`: the oracle's question of write_exam(), with `inputs` (batches * asked.rows, ...) and the state
// of `parameters`, a safetensors file.
void write_run_exam(const RunResults& asked, const HostTensor& inputs,
                    const std::filesystem::path& parameters);
// Writes run.json, the worker's question, into check/ of its cell folder, as write_new_within() does.
void write_run_question(const std::filesystem::path& cell_folder, const RunResults& asked);

}  // namespace assay

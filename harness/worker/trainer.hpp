// The loop of every C++ worker: it asks the batch library for the next block until all are done.
#pragma once

#include <functional>
#include <vector>

#include "harness/worker/backend.hpp"
#include "harness/worker/supply.hpp"

namespace assay {

// Called after every block, while no clock runs.
using ReportProgress = std::function<void(std::int64_t done, std::int64_t planned)>;

// The kind of steps that a cell times.
enum class Timed {
  training,   // steps with the schedule's learning rates
  inference,  // drains after each step and records its latency
  decoding,   // a step is a generation: drains after the prompt and after each token, and records both
  op,         // a single op: neither of these; drains at the end of a block
};

// Stages every resident batch of the cell in its slot. Throws the exceptions of both arguments.
void stage_resident(Executable& executable, Supply& supply);

struct Trained {
  std::int64_t last_step = 0;      // its number
  std::vector<HostTensor> read{};  // the results that were asked for last
};

// Steps, epochs, evaluation and inference. With resident batches a step costs the harness two loads and a
// virtual call. Leaves the state as it is after the last step. Throws the exceptions of the executable and the
// supply. tokens: for decoding, those of a generation after its prompt.
Trained train(Executable& executable, Supply& supply, Timed timed, const ReportProgress& progress,
              std::int64_t tokens = 0);

}  // namespace assay

// The loop of every C++ worker: it does what the batch library says until that says that all is done.
#pragma once

#include <functional>

#include "harness/worker/backend.hpp"
#include "harness/worker/session.hpp"

namespace assay {

// Called after every block, while no clock runs.
using TellProgress = std::function<void(std::int64_t done, std::int64_t planned)>;

// What a cell times.
enum class Timed {
  training,   // steps with the schedule's learning rates
  inference,  // each step drained and stamped as a latency
  op,         // a single op: steps without either, drained at the end of a block
};

// Stages every resident batch of the cell, in its slot. Throws what both throw.
void stage_resident(Executable& executable, Session& session);

// Steps, epochs, evaluation and inference. With resident batches a step costs the harness two loads and a
// virtual call. Leaves the state as the last step left it, and returns the
// number of that step. Throws what the executable and the session throw.
std::int64_t train(Executable& executable, Session& session, Timed timed, const TellProgress& progress);

}  // namespace assay

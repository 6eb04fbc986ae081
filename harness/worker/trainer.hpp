// The loop of every C++ worker: it does what the batch library says until that says that all is done.
#pragma once

#include <functional>
#include <string>

#include "harness/worker/backend.hpp"
#include "harness/worker/session.hpp"

namespace assay {

// Called after every block, while no clock runs.
using Progress = std::function<void(std::int64_t done, std::int64_t planned)>;

// Steps, epochs, evaluation and inference. With resident batches a step costs the harness two loads and a
// virtual call. Leaves the state as the last step left it. Throws what the executable and the session throw.
void train(Executable& executable, Session& session, const std::string& task, const Progress& progress);

}  // namespace assay

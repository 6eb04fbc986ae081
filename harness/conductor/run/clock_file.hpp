// results/clock.json: what the batch library measured in the worker.
#pragma once

#include <filesystem>

#include "harness/report/report.hpp"

namespace assay {

// Fills blocks, evaluations and latencies of the fork; a warm-up that never became steady sets its flag.
// has_loss: task train; a loss that is null was not finite then. Throws JsonError naming the file and the
// field: a worker that did not close its session leaves none.
void read_clock(const std::filesystem::path& file, bool has_loss, Fork& fork);

}  // namespace assay

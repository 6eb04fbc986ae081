// What was taken from a worker's processors between two readings: the worker and the conductor measure it alike.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/core/processor_times.hpp"
#include "harness/protocol/clock_file.hpp"

namespace assay {

// Time that was not idle, not stolen and not the worker's was taken by other processes. own_ns: the CPU time of the
// worker and its child processes. Nothing if the times of the processors are unknown. The result has no `waited_ns` and
// no `seen_ns`.
std::optional<Disturbance> disturbance_between(const ProcessorTimes& before, const ProcessorTimes& after,
                                               std::int64_t window_ns, std::int64_t own_ns);

}  // namespace assay

// How many steps of a single op are recorded to time the device alone, and how often they run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "harness/engine/kernel_library.hpp"
#include "harness/worker/backend.hpp"

namespace assay {

// record(n) records n steps over `slots` staged operands in turn, each of `kernels` kernels. All are at least 1. Throws what
// record() throws, and Unsupported if a run cannot pass over all operands: caches would hold more of them than in the steps
// that were timed.
DeviceTimes times_of(std::int64_t slots, std::int64_t kernels,
                     const std::function<std::unique_ptr<Recording>(std::int64_t)>& record);

}  // namespace assay

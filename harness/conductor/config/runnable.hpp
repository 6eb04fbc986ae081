// Whether a cell can be run here.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/conductor/config/cell.hpp"
#include "workloads/workload_registry.hpp"

namespace assay {

// Gives the cell a status and a reason if its backend does not offer it, if something that it needs is missing here, or
// if it needs more than the available memory (nullopt: unknown). Needs its program.
void mark_if_not_runnable(Cell& cell, const WorkloadRegistry& workloads,
                          std::optional<std::int64_t> available_memory);

}  // namespace assay

// The workloads and backends that a config names.
#pragma once

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/config/config.hpp"
#include "workloads/workload_registry.hpp"

namespace assay {

// Cells point into both: they must outlive the cells, and may be moved.
struct Registries {
  WorkloadRegistry workloads{};
  BackendRegistry backends{};
};

// Adds the networks in the folders that a config names as workloads. Throws as WorkloadRegistry::add_folder().
void add_named_networks(WorkloadRegistry& workloads, const RunConfig& config);

}  // namespace assay

// The workloads and backends that a config names.
#pragma once

#include "harness/conductor/backends/backends.hpp"
#include "workloads/workload_registry.hpp"

namespace assay {

// Cells point into both: they must outlive the cells, and may be moved.
struct Registries {
  WorkloadRegistry workloads{};
  BackendRegistry backends{};
};

}  // namespace assay
